from __future__ import annotations

import socket

from spark_tasks.process.readable import is_readable


def test_data_and_the_end_can_be_read() -> None:
    here, there = socket.socketpair()
    with here, there:
        assert not is_readable(here)
        there.send(b"x")
        assert is_readable(here)
        here.recv(1)
        assert not is_readable(here.fileno())
        there.close()
        assert is_readable(here.fileno())
