"""The common part of stores with one topic: they start to read it when they start, and stop reading if they die."""

from __future__ import annotations

import contextlib
import logging
from typing import Any

import pykka
from typing_extensions import override

from actors.stores.log_events import CaughtUp, RecordsRead
from spark_tasks.futures import error_of
from storage.log.interface import TopicLog

_logger = logging.getLogger(__name__)


class LogActor(pykka.ThreadingActor):
    """Reads a topic's log, whose threads send it RecordsRead and CaughtUp. `name`: the topic's name in log lines."""

    use_daemon_thread = True  # a log that waits for Kafka does not keep the worker from ending

    def __init__(self, topic_log: TopicLog, name: str) -> None:
        super().__init__()
        self._log = topic_log
        self._name = name

    @override
    def on_start(self) -> None:
        """Begins to read."""
        started = self._log.start(
            lambda records: self._tell_self(RecordsRead(records)),
            lambda error: _logger.debug("%s: %s", self._name, error),
        )
        started.add_done_callback(lambda future: self._tell_self(CaughtUp(error_of(future))))

    @override
    def on_failure(self, *_: Any) -> None:
        self.on_stop()

    def _tell_self(self, message: Any) -> None:
        with contextlib.suppress(pykka.ActorDeadError):  # the log's threads may end a moment after their store
            self.actor_ref.tell(message)
