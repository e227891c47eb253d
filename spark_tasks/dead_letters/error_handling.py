"""A connector's `errors.*` settings for one of its tasks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from spark_tasks.config.client_properties import client_properties
from spark_tasks.config.connector_keys import QUEUE, SINK
from spark_tasks.config.definition import ConfigDef
from spark_tasks.config.masking import process_secrets
from spark_tasks.kafka.producer_settings import ProducerSettings
from spark_tasks.kafka.task_clients import connection_settings
from spark_tasks.task import TaskContext

_KEYS = (
    "errors.tolerance", "errors.retry.timeout", "errors.retry.delay.max.ms", "errors.log.enable",
    "errors.log.include.messages", QUEUE,
    "errors.deadletterqueue.topic.replication.factor", "errors.deadletterqueue.context.headers.enable",
)  # fmt: skip
_DEFINITION = ConfigDef(*(SINK.keys[key] for key in _KEYS))


@dataclass(frozen=True, slots=True)
class ErrorHandling:
    """The parsed settings; picklable. `tolerant`: errors.tolerance is `all`. `retry_timeout_ms`: -1 means forever.
    `log`, `log_records`: errors.log.enable and errors.log.include.messages. `queue`: the dead letter queue's topic,
    empty for none. `with_headers`: errors.deadletterqueue.context.headers.enable. `client`, `appender`: settings of the
    producer; `admin`: settings of the admin client that creates the topic. `secrets`: what letters must not contain.
    """

    connector: str = ""
    task: int = 0
    tolerant: bool = False
    retry_timeout_ms: int = 0
    retry_delay_max_ms: int = 60_000
    log: bool = False
    log_records: bool = False
    queue: str = ""
    replication_factor: int = 3
    with_headers: bool = False
    client: Mapping[str, Any] = field(default_factory=dict)
    appender: Mapping[str, Any] = field(default_factory=dict)
    admin: Mapping[str, Any] = field(default_factory=dict)
    secrets: tuple[str, ...] = field(default=(), repr=False)

    @classmethod
    def of(cls, context: TaskContext) -> ErrorHandling:
        """Parses the connector's configuration. Raises ConfigError."""
        tolerance, timeout, delay, log, records, queue, replication, headers = (
            _DEFINITION.parse(context.connector).values())
        own = cls(
            context.connector_name, context.task, tolerance == "all", int(timeout), int(delay), bool(log),
            bool(records), (queue or "").strip(), int(replication), bool(headers),
        )
        if not own.queue:
            return own  # without the clients, whose settings are not validated then
        producer, admin = (
            client_properties(context.worker.clients, context.connector, kind) for kind in ("producer", "admin"))
        letters = ProducerSettings.of(producer)
        return replace(own, client=letters.client, appender=letters.appender, admin=connection_settings(admin),
                       secrets=process_secrets().of_connector(context.connector_name))

    @property
    def replayable(self) -> bool:
        """Whether letters have the headers that a replay needs."""
        return bool(self.queue) and self.with_headers and self.tolerant
