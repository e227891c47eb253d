"""Whether something can be read at once."""

from __future__ import annotations

import select
import socket


def is_readable(file: int | socket.socket) -> bool:
    """Whether a read would not wait: there is data, or the end; or the process of a pidfd has ended. Unlike
    select.select, this may have any number of open files.
    """
    poll = select.poll()
    poll.register(file, select.POLLIN)
    return bool(poll.poll(0))
