"""The leader's writer: a transactional producer that fences the former leader's (KIP-618)."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from typing import Any, Final

from typing_extensions import override

from spark_tasks.errors import ConnectError
from spark_tasks.kafka.client_config import DEFAULTS
from spark_tasks.kafka.topic_producer import TransactionalTopicProducer
from storage.daemon_pool import DaemonPool
from storage.errors import PrivilegedWriteError
from storage.log.interface import PrivilegedWriter
from storage.log.record import KeyValue, Position

_logger = logging.getLogger(__name__)
_TIMEOUT_S: Final = 30


class KafkaPrivilegedWriter(PrivilegedWriter):
    """Writes the records of each call in one transaction; used for a connector's offsets and for the config topic.

    kafka-python's transactional calls block, so they run on their own thread. While Kafka is down, that does not delay
    the end of the process.
    """

    def __init__(self, topic: str, clients: Mapping[str, Any], *, transactional_id: str, client_id: str) -> None:
        self._topic = topic
        self._settings = {
            **DEFAULTS,
            **clients,
            "client_id": client_id,
            "transactional_id": transactional_id,
            "acks": "all",
            "max_block_ms": 1000 * _TIMEOUT_S,
            "retry_backoff_ms": 5,  # retried until the previous transaction is complete; 100 ms would add up
        }
        self._producer: TransactionalTopicProducer | None = None
        self._pool = DaemonPool(1, f"writer-{topic}")

    @override
    def claim(self) -> Future[None]:
        """Fails with ConnectError."""
        return self._pool.try_submit(self._claim)

    @override
    def write(self, records: Sequence[KeyValue]) -> Future[list[Position]]:
        return self._pool.try_submit(self._write, records)

    @override
    def release(self) -> None:
        self._pool.try_submit(self._give_up)

    @override
    def close(self) -> None:
        given_up = self._pool.try_submit(self._give_up)  # after what was asked before
        given_up.add_done_callback(lambda _: self._pool.close())

    def _claim(self) -> None:
        if self._producer is not None:
            return
        try:
            self._producer = TransactionalTopicProducer(self._topic, self._settings, _TIMEOUT_S)
        except ConnectError as error:
            raise ConnectError(str(error)) from error

    def _write(self, records: Sequence[KeyValue]) -> list[Position]:
        if self._producer is None:
            raise PrivilegedWriteError(f"Cannot produce to topic {self._topic} without claiming write privileges first")
        try:
            return [Position(*appended) for appended in self._producer.write(records)]
        except ConnectError as error:
            self._give_up()
            _logger.warning("%s", error)
            raise PrivilegedWriteError(str(error)) from error

    def _give_up(self) -> None:
        producer, self._producer = self._producer, None
        if producer is not None:
            producer.close()
