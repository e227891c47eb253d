"""The newest snapshot of the status topic, for any thread."""

from __future__ import annotations

from concurrent.futures import Future

from storage.status.state import StatusState


class StatusView:
    """The newest snapshot, for any thread: whoever reads `statuses` has a whole and consistent one.

    `ready` completes once the topic is read to its end for the first time, or fails where that is impossible.
    """

    def __init__(self) -> None:
        self.statuses = StatusState()
        self.ready: Future[None] = Future()
