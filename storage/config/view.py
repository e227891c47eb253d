"""The newest snapshot of the config topic, for any thread."""

from __future__ import annotations

from concurrent.futures import Future

from storage.config.state import ClusterConfigState


class ConfigView:
    """The newest snapshot, for any thread: whoever reads `config` has a whole and consistent one.

    `ready` completes once the topic is read to its end for the first time, or fails where that is impossible.
    """

    def __init__(self) -> None:
        self.config = ClusterConfigState()
        self.ready: Future[None] = Future()
