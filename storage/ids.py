"""Names that cross every border of the control plane: what a string or a number means."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple, NewType

ConnectorName = NewType("ConnectorName", str)
WorkerId = NewType("WorkerId", str)  # "host:port" as advertised, for example "10.0.0.7:8083"
TopicName = NewType("TopicName", str)
Config = dict[str, str]  # a connector's or a task's raw configuration: never with secrets resolved


class ConnectorTaskId(NamedTuple):
    """A task of a connector; sorts by connector, then by number; prints as Kafka Connect does (`name-0`)."""

    connector: ConnectorName
    task: int

    def __str__(self) -> str:
        return f"{self.connector}-{self.task}"


ItemId = ConnectorName | ConnectorTaskId  # what runs and has a status: a connector's own instance, or one task


class TargetState(Enum):
    """What the user wants of a connector (KIP-52, KIP-875)."""

    STARTED = "STARTED"  # connector and tasks run
    PAUSED = "PAUSED"  # connector and tasks exist and move no data
    STOPPED = "STOPPED"  # the connector stays in the config topic, its tasks are gone


class State(Enum):
    """What a status record says of a connector or a task."""

    UNASSIGNED = "UNASSIGNED"  # no worker runs it
    RUNNING = "RUNNING"
    PAUSED = "PAUSED"
    STOPPED = "STOPPED"  # connectors only
    FAILED = "FAILED"  # stays so until somebody restarts it
    RESTARTING = "RESTARTING"  # named in a restart plan (KIP-745)
    DESTROYED = "DESTROYED"  # written as a tombstone, never seen by a reader
