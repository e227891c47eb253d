"""The newest snapshot of the config topic, for any thread."""

from __future__ import annotations

from concurrent.futures import Future

from storage.config.state import ClusterConfigState


class ConfigView:
    """Holds the newest snapshot; any thread may read `config`, which is always a consistent value.

    `ready` completes once the topic has been read to its end for the first time, or fails if that is impossible.
    """

    def __init__(self) -> None:
        self.config = ClusterConfigState()
        self.ready: Future[None] = Future()
