"""An instance of a connector or task that runs on this worker, as the herder knows it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final

from actors.messages.correlation_ids import Epoch, RequestId
from storage.ids import Config, State
from storage.status.state import Stall


class RestartCause(Enum):
    """Why an instance is stopped to be started again; NONE: it is only stopped, or was not running before."""

    NONE = "none"
    REPLACEMENT = "replacement"  # a new configuration
    REQUESTED = "requested"  # a request to restart this item alone
    RESTART = "restart"  # part of a restart plan
    AFTER_FAILURE = "failure"  # an automatic restart (errors.restart.*)
    AFTER_STALL = "stall"  # an automatic restart (errors.restart.*)

    @property
    def is_announced(self) -> bool:
        """Whether its start is announced as RESTARTING (KIP-745)."""
        return self not in (RestartCause.NONE, RestartCause.REPLACEMENT, RestartCause.REQUESTED)

    @property
    def start_text(self) -> str:
        """The words of the log line about its start."""
        return _START_TEXTS[self]


_START_TEXTS: Final = {
    RestartCause.NONE: "started", RestartCause.REPLACEMENT: "restarted with a new configuration",
    RestartCause.REQUESTED: "restarted on request", RestartCause.RESTART: "restarted on request",
    RestartCause.AFTER_FAILURE: "restarted after a failure (errors.restart.policy)",
    RestartCause.AFTER_STALL: "restarted after a stall (errors.restart.policy)",
}


@dataclass(frozen=True, slots=True)
class Stopping:
    """An instance is being stopped. `disowned`: the membership was lost, so the final status is written as by a worker
    outside the group.
    """

    restart: RestartCause = RestartCause.NONE
    disowned: bool = False


@dataclass(frozen=True, slots=True)
class Instance:
    """One running instance of an item on this worker.

    `generated`: the task configs that the connector generated last. `waiting`: requests that are answered when the
    instance (or the next one, if it is restarted) reports for the first time. `permanent`: a restart cannot fix its
    failure. `stopping`: set while it is being stopped. `stalled`: set while it makes no progress. `restarted`: why it
    follows another instance.
    """

    epoch: Epoch
    state: State | None = None
    trace: str | None = None
    version: str | None = None
    permanent: bool = False
    stopping: Stopping | None = None
    stalled: Stall | None = None
    waiting: tuple[RequestId, ...] = ()
    generated: tuple[Config, ...] | None = None
    restarted: RestartCause = RestartCause.NONE
