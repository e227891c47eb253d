"""The stores' errors in addition to ConnectError."""

from __future__ import annotations

from spark_tasks.errors import ConnectError


class PrivilegedWriteError(ConnectError):
    """A write that only the leader may do was rejected: the privilege was not claimed, or has been fenced.

    A worker that is still the leader claims the privilege again and repeats the write (KIP-618).
    """
