"""The records that the herder's writes put on the config topic, and the stages in which they are sent."""

from __future__ import annotations

from dataclasses import dataclass, replace

from actors.messages.commands import (
    ConfigWrite,
    PutConnectorConfig,
    PutLoggerLevel,
    PutRestartRequest,
    PutSessionKey,
    PutTargetState,
    PutTaskConfigSet,
    PutTaskCountRecord,
    RemoveConnectorConfig,
)
from storage.config import records
from storage.ids import ConnectorName, ConnectorTaskId
from storage.log.record import KeyValue


@dataclass(frozen=True, slots=True)
class WritePlan:
    """The records of one write. A stage is sent once the previous one is acknowledged.

    `failure`: the message if it fails, as in Kafka Connect. `privileged`: only the leader may write this (KIP-618).
    `connector`: other writes of this connector have to wait.
    """

    failure: str
    stages: tuple[tuple[KeyValue, ...], ...]
    privileged: bool = True
    connector: ConnectorName | None = None

    def next_stage(self) -> tuple[tuple[KeyValue, ...], WritePlan]:
        """The stage to send now, and the rest."""
        return self.stages[0], replace(self, stages=self.stages[1:])

    def without_stages(self) -> WritePlan:
        """The same write with nothing left to send."""
        return replace(self, stages=())


def plan(write: ConfigWrite) -> WritePlan:
    """The records and stages of a write."""
    match write:
        case PutConnectorConfig(connector, config, state):
            config_record = records.connector_config(connector, config)
            stage = (config_record,) if state is None else (records.target_state(connector, state), config_record)
            return WritePlan("Error writing connector configuration to Kafka", (stage,), connector=connector)
        case RemoveConnectorConfig(connector):
            stage = (records.connector_config(connector, None), records.target_state(connector, None))
            return WritePlan("Error removing connector configuration from Kafka", (stage,), connector=connector)
        case PutTaskConfigSet(connector, configs):
            tasks = tuple(
                records.task_config(ConnectorTaskId(connector, n), config) for n, config in enumerate(configs)
            )
            end = (records.commit(connector, len(configs)),)
            stages = (tasks, end) if tasks else (end,)
            return WritePlan("Error writing task configurations to Kafka", stages, connector=connector)
        case PutTargetState(connector, state):
            stage = (records.target_state(connector, state),)
            return WritePlan("Error writing target state to Kafka", (stage,), privileged=False, connector=connector)
        case PutTaskCountRecord(connector, count):
            stage = (records.task_count(connector, count),)
            return WritePlan("Error writing task count record to Kafka", (stage,), connector=connector)
        case PutRestartRequest(request):
            failure = f"Error writing restart request for connector {request.connector} to Kafka"
            return WritePlan(failure, ((records.restart(request),),), connector=request.connector)
        case PutSessionKey(key):
            return WritePlan("Error writing session key to Kafka", ((records.session_key(key),),))
        case PutLoggerLevel(namespace, level):
            stage = (records.logger_level(namespace, level),)
            return WritePlan("Error writing logger level to Kafka", (stage,), privileged=False)
