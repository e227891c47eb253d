"""Identifiers and states that all parts of the control plane use."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple, NewType

from typing_extensions import override

ConnectorName = NewType("ConnectorName", str)
WorkerId = NewType("WorkerId", str)  # "host:port" as advertised, for example "10.0.0.7:8083"
TopicName = NewType("TopicName", str)
Config = dict[str, str]  # a connector's or a task's raw configuration, in which placeholders are never resolved


class ConnectorTaskId(NamedTuple):
    """A task of a connector; sorts by connector, then by number; prints as Kafka Connect does (`name-0`)."""

    connector: ConnectorName
    task: int

    @override
    def __str__(self) -> str:
        return f"{self.connector}-{self.task}"


ItemId = ConnectorName | ConnectorTaskId  # what runs and has a status: a connector's own instance, or a task


class TargetState(Enum):
    """The state that the user wants for a connector (KIP-52, KIP-875)."""

    STARTED = "STARTED"  # connector and tasks run
    PAUSED = "PAUSED"  # connector and tasks exist but move no data
    STOPPED = "STOPPED"  # the connector stays in the config topic, without tasks


class State(Enum):
    """The state of a connector or a task in its status record."""

    UNASSIGNED = "UNASSIGNED"  # no worker runs it
    RUNNING = "RUNNING"
    PAUSED = "PAUSED"
    STOPPED = "STOPPED"  # connectors only
    FAILED = "FAILED"  # until it is restarted
    RESTARTING = "RESTARTING"  # part of a restart plan (KIP-745)
    DESTROYED = "DESTROYED"  # written as a tombstone, so readers never see it
