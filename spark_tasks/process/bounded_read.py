"""Reads what others choose, with limits: responses of unknown length, and files that a configuration names."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Final

_CHUNK: Final = 65_536
_MAX_FILE_BYTES: Final = 16 << 20


class TooLongError(ValueError):
    """The response is longer than allowed."""


def read_bounded(read: Callable[[int], bytes], max_bytes: int) -> bytes:
    """Calls `read` (such as a response's `read1`) with a number of bytes until it returns none, and returns all bytes.

    Raises TooLongError beyond `max_bytes`, and the errors of `read`.
    """
    parts: list[bytes] = []
    size = 0
    while part := read(_CHUNK):
        parts.append(part)
        size += len(part)
        if size > max_bytes:
            raise TooLongError(f"the response has more than {max_bytes // 2**20} MiB")
    return b"".join(parts)


def read_settings_file(file: Path) -> bytes:
    """Returns the content of a regular file of at most 16 MiB that a connector's configuration names. Another one could
    take all memory, as a device without an end does, or never be read, as a pipe. Raises OSError.
    """
    with open(file, "rb", opener=lambda path, flags: os.open(path, flags | os.O_NONBLOCK)) as opened:
        if not stat.S_ISREG(os.fstat(opened.fileno()).st_mode):
            raise OSError("it is not a regular file")
        content = opened.read(_MAX_FILE_BYTES + 1)
    if len(content) > _MAX_FILE_BYTES:
        raise OSError(f"it has more than {_MAX_FILE_BYTES >> 20} MiB")
    return content
