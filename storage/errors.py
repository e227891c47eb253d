"""What the stores fail with, beyond ConnectError."""

from __future__ import annotations

from spark_tasks.errors import ConnectError


class PrivilegedWriteError(ConnectError):
    """A write that only the leader may do was refused: the privilege was never claimed, or somebody fenced it.

    Whoever is still the leader claims the privilege again and repeats the write (KIP-618).
    """
