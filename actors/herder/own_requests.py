"""The herder's requests to itself, which wait in the queue with those of REST and of other workers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from actors.herder.fencing_state import RecordFencing
from actors.herder.instance import RestartCause
from actors.messages.correlation_ids import Epoch
from storage.ids import Config, ConnectorName, ItemId


@dataclass(frozen=True, slots=True)
class Reconfigure:
    """The herder's own request: has a local connector generate its task configs; `attempt`: the failures so far."""

    connector: ConnectorName
    attempt: int = 0
    first_ms: int = 0


@dataclass(frozen=True, slots=True)
class Publish:
    """The leader's own request: writes the task configs that a local connector generated."""

    reconfigure: Reconfigure
    configs: tuple[Config, ...]


@dataclass(frozen=True, slots=True)
class Restart:
    """The herder's own request: restarts an instance that has failed or stalled (errors.restart.*)."""

    item: ItemId
    epoch: Epoch
    cause: Literal[RestartCause.AFTER_FAILURE, RestartCause.AFTER_STALL]


OwnRequest = Reconfigure | Publish | RecordFencing | Restart
