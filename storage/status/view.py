"""The newest snapshot of the status topic, for any thread."""

from __future__ import annotations

from concurrent.futures import Future

from storage.status.state import StatusState


class StatusView:
    """Holds the newest snapshot; any thread may read `statuses`, which is always a consistent value.

    `ready` completes once the topic has been read to its end for the first time, or fails if that is impossible.
    """

    def __init__(self) -> None:
        self.statuses = StatusState()
        self.ready: Future[None] = Future()
