"""The settings of a sink task, parsed once from the configurations of the worker and the connector."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from spark_tasks.config.client_properties import client_properties
from spark_tasks.config.client_values import given_value
from spark_tasks.dead_letters.error_handling import ErrorHandling
from spark_tasks.kafka.cluster import Isolation
from spark_tasks.kafka.group_settings import ConsumerSettings
from spark_tasks.kafka.task_clients import (
    Reset,
    connection_settings,
    consumer_settings,
    isolation,
    reset_policy,
)
from spark_tasks.task import TaskContext


@dataclass(frozen=True, slots=True)
class SinkSettings:
    """The settings of a sink task. `client`: kafka-python's connection settings. `reset`: auto.offset.reset.
    `max_poll_records`: max.poll.records, None if it is not set.
    """

    consumer: ConsumerSettings
    client: Mapping[str, Any]
    isolation: Isolation
    reset: Reset
    max_poll_records: int | None
    errors: ErrorHandling

    @classmethod
    def of(cls, context: TaskContext) -> SinkSettings:
        """Parses the settings. Raises ConfigError."""
        clients, connector = context.worker.clients, context.connector
        properties = client_properties(clients, connector, "consumer")
        return cls(
            consumer=consumer_settings(context.connector_name, context.task, connector, properties),
            client=connection_settings(properties),
            isolation=isolation(properties),
            reset=reset_policy(properties),
            max_poll_records=given_value("consumer", properties, "max.poll.records"),
            errors=ErrorHandling.of(context),
        )

    @property
    def queue_is_in_group_cluster(self) -> bool:
        """Whether the dead letter queue is in the same cluster as the consumer group."""
        servers = "bootstrap_servers"
        return bool(self.errors.client.get(servers) == self.client.get(servers))
