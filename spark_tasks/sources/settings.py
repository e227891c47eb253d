"""The settings of a source task, parsed from the configurations of worker and connector."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from spark_tasks.config.client_keys import client_config_def
from spark_tasks.config.client_properties import client_properties
from spark_tasks.config.client_values import client_value
from spark_tasks.dead_letters.error_handling import ErrorHandling
from spark_tasks.errors import ConfigError
from spark_tasks.kafka.producer_settings import ProducerSettings
from spark_tasks.kafka.topic_creation import TopicCreation
from spark_tasks.sources.boundaries import Boundary
from spark_tasks.task import TaskContext

_logger = logging.getLogger(__name__)

_KAFKAS: Final = client_config_def("producer").keys
_IDEMPOTENT: Final = {"enable.idempotence": "true"}  # for transactions, whatever is configured


@dataclass(frozen=True, slots=True)
class TransactionSettings:
    """The settings of a task's transactional producer. `appender`: keyword arguments of the Appender."""

    transactional_id: str
    boundary: Boundary
    appender: Mapping[str, Any]
    transaction_timeout_ms: int = _KAFKAS["transaction.timeout.ms"].default
    max_block_ms: int = _KAFKAS["max.block.ms"].default

    @classmethod
    def of(cls, context: TaskContext, properties: Mapping[str, str]) -> TransactionSettings:
        """Parses the producer's `properties`. Raises ConfigError."""
        producer = ProducerSettings.of({**properties, **_IDEMPOTENT})
        if not producer.idempotent:
            raise ConfigError(
                f"Invalid value {properties.get('acks')} for configuration acks: exactly-once delivery requires all"
            )
        own_id = f"{context.worker.group_id}-{context.connector_name}-{context.task}"
        if properties.get("transactional.id", own_id) != own_id:
            _logger.warning("%s: transactional.id is ignored, as exactly-once delivery requires %s", context.id, own_id)
        timeout = client_value("producer", properties, "transaction.timeout.ms")
        boundary = Boundary.configured(context.connector, context.worker.offset_flush_interval_ms, timeout)
        block = client_value("producer", properties, "max.block.ms")
        return cls(own_id, boundary, producer.appender, timeout, block)


@dataclass(frozen=True, slots=True)
class SourceSettings:
    """The settings of a source task. `topics`: None if brokers create topics automatically. `transactions`: None for
    at-least-once delivery.
    """

    producer: ProducerSettings
    topics: TopicCreation | None
    errors: ErrorHandling
    transactions: TransactionSettings | None

    @classmethod
    def of(cls, context: TaskContext) -> SourceSettings:
        """Parses the settings. Raises ConfigError."""
        clients, connector = context.worker.clients, context.connector
        properties = client_properties(clients, connector, "producer")
        transactions = None if context.guard is None else TransactionSettings.of(context, properties)
        producer = ProducerSettings.of(properties if transactions is None else {**properties, **_IDEMPOTENT})
        topics = TopicCreation.of(connector, clients) if context.worker.topic_creation else None
        return cls(producer, topics, ErrorHandling.of(context), transactions)
