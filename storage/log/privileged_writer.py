"""The leader's writer: a transactional producer that fences the former leader's (KIP-618)."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from typing import Any, Final

from kafka import KafkaProducer
from kafka.errors import KafkaError
from typing_extensions import override

from spark_tasks.errors import ConnectError
from spark_tasks.kafka.errors import translated
from spark_tasks.kafka.topic_client import client_for
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
            "reconnect_backoff_max_ms": 1000,
            **clients,
            "client_id": client_id,
            "kafka_client": client_for(topic),
            "transactional_id": transactional_id,
            "acks": "all",
            "max_block_ms": 1000 * _TIMEOUT_S,
            "retry_backoff_ms": 5,  # retried until the previous transaction is complete; 100 ms would add up
            "metrics_enabled": False,
        }
        self._producer: KafkaProducer | None = None
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
            self._producer = KafkaProducer(**self._settings)
            self._producer.init_transactions()
        except KafkaError as error:
            self._give_up()
            doing = (f"Failed to create and initialize fencable producer for topic {self._topic} (transactional.id "
                     f"{self._settings['transactional_id']})")
            raise ConnectError(str(translated(error, doing))) from error

    def _write(self, records: Sequence[KeyValue]) -> list[Position]:
        if self._producer is None:
            raise PrivilegedWriteError(f"Cannot produce to topic {self._topic} without claiming write privileges first")
        try:
            self._producer.begin_transaction()
            sent = [self._producer.send(self._topic, key=key, value=value) for key, value in records]
            # Not after the commit, which waits in vain if the broker refuses the topic.
            done = [future.get(timeout=_TIMEOUT_S) for future in sent]
            self._producer.commit_transaction()
        except KafkaError as error:
            self._give_up()
            message = str(translated(error, f"Failed to perform fencable send to topic {self._topic}",
                                     needs="WRITE permission on the topic"))
            _logger.warning("%s", message)
            raise PrivilegedWriteError(message) from error
        return [Position(meta.partition, meta.offset) for meta in done]

    def _give_up(self) -> None:
        producer, self._producer = self._producer, None
        if producer is not None:
            try:
                producer.close(timeout=0)  # an open transaction was fenced or will time out
            except KafkaError as error:
                _logger.debug("Closing the transactional producer of topic %s: %s", self._topic, error)
