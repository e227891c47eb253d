"""What the log says about changes in the config topic: who was created, changed, paused. Never the values of a
configuration, which may be secrets.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice

from actors.assignment.protocol import Allocation
from actors.herder.turn import Turn
from spark_tasks.errors import counted, shortened
from storage.config.state import (
    ClusterConfigState,
    ConfigChange,
    ConnectorRemoved,
    ConnectorUpdated,
    LoggerLevelChanged,
    RestartRequest,
    RestartRequested,
    SessionKeyChanged,
    TargetStateChanged,
    TasksUpdated,
)
from storage.ids import ConnectorName, TargetState

SHOWN = 5  # names in a line
_LONGEST = 100  # characters of a name
_REQUESTED = {TargetState.STARTED: "Resume", TargetState.PAUSED: "Pause", TargetState.STOPPED: "Stop"}


def announce(turn: Turn, before: ClusterConfigState, changes: Sequence[ConfigChange]) -> None:
    """Logs a line for each change since `before`, which is now in the herder's `store`."""
    for change in changes:
        match change:
            case ConnectorUpdated(connector):
                turn.log("INFO", _updated(before, turn.state.store, connector), connector)
            case ConnectorRemoved(connector):
                turn.log("INFO", "Connector deleted", connector)
            case TasksUpdated(connector) if connector not in turn.state.store.inconsistent:
                count = counted(len(turn.state.store.tasks(connector)), "task")
                turn.log("INFO", f"Task configurations changed: {count}", connector)
            case TargetStateChanged(connector):
                target = turn.state.store.target_state(connector)
                if target is not None:
                    turn.log("INFO", f"{_REQUESTED[target]} requested", connector)
            case RestartRequested(request):
                turn.log("INFO", _restart(request), request.connector)
            case TasksUpdated() | SessionKeyChanged() | LoggerLevelChanged():
                pass  # incomplete sets of tasks; changes that concern no connector


def _updated(before: ClusterConfigState, after: ClusterConfigState, connector: ConnectorName) -> str:
    old, new = before.connector_configs.get(connector), after.connector_configs.get(connector, {})
    if old is None:
        target = after.target_state(connector)
        return "Connector created" if target in (TargetState.STARTED, None) else f"Connector created ({target.value})"
    keys = sorted(key for key in {*old, *new} if old.get(key) != new.get(key))
    return f"Connector reconfigured: {named(keys)} changed" if keys else "Connector reconfigured: nothing changed"


def _restart(request: RestartRequest) -> str:
    what = "the connector and its tasks" if request.include_tasks else "the connector"
    return f"Restart of {what} requested{', where they have failed' if request.only_failed else ''}"


def difference(before: ClusterConfigState, after: ClusterConfigState) -> str:
    """What a rebalance is for: the connectors that were created, deleted or given other tasks."""
    old, new = before.connector_configs.keys(), after.connector_configs.keys()
    generations = before.task_config_generations
    tasks = (name for name, generation in after.task_config_generations.items()
             if generation != generations.get(name) and name in new)
    found = (("created", sorted(new - old)), ("deleted", sorted(old - new)), ("other tasks", sorted(tasks)))
    return "; ".join(f"{what}: {named(names)}" for what, names in found if names) or "configurations changed"


def named(things: Iterable[object]) -> str:
    """The first few names, and how many others there are."""
    names = iter(things)
    some = [shortened(str(name), _LONGEST) for name in islice(names, SHOWN)]
    more = sum(1 for _ in names)
    return ", ".join(some) + (f" and {more} more" if more else "")


def sizes(allocation: Allocation, *, names: bool = False) -> str:
    """How many connectors and tasks there are, with their first few names: 1 connector and 2 tasks (a, a-0, a-1)."""
    kinds = ((allocation.connectors, "connector"), (allocation.tasks, "task"))
    found = " and ".join(counted(len(things), name) for things, name in kinds if things)
    if not found:
        return "nothing"
    return f"{found} ({named((*allocation.connectors, *allocation.tasks))})" if names else found
