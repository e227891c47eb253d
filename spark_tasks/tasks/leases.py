"""A task's lease of the host of Java plugins, where that runs a part of a Python connector's chain."""

from __future__ import annotations

from typing import Protocol


class Lease(Protocol):
    """`token`: what executors say to the host."""

    token: str

    def folder(self) -> str:
        """Where the host is by now; it is started, or moved to, if need be. Raises RetriableError, ConnectError."""

    def close(self) -> None:
        """The task is gone: the host ends what it does for it. Safe twice."""
