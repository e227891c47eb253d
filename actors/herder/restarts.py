"""Restart of a connector and its tasks in a cluster (KIP-745): the plan comes from the statuses, is the same on every
worker, and each worker restarts its own part of it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from actors.errors import NotAssignedError, NotLeaderError, RequestTargetError
from actors.herder import automatic_restarts, work
from actors.herder.instance import RestartCause
from actors.herder.own_requests import Restart
from actors.herder.turn import Turn
from actors.messages.correlation_ids import RequestId
from actors.messages.requests import ConnectorStateInfo
from spark_tasks.errors import ConnectError
from storage.config.state import RestartRequest
from storage.ids import ConnectorTaskId, ItemId, State
from storage.status.state import Status, StatusState


@dataclass(frozen=True, slots=True)
class RestartPlan:
    """The statuses that a restart request applies to, as they will be shown: RESTARTING for what restarts."""

    request: RestartRequest
    connector: Status
    tasks: tuple[Status, ...]

    def items(self) -> tuple[ItemId, ...]:
        """The items that restart."""
        return tuple(s.id for s in (self.connector, *self.tasks) if s.state is State.RESTARTING)


def plan(request: RestartRequest, statuses: StatusState) -> RestartPlan | None:
    """The plan for a request; None if the connector has no status yet."""
    connector = statuses.connectors.get(request.connector)
    if connector is None:
        return None
    restart = not request.only_failed or connector.state is State.FAILED
    tasks = [statuses.tasks.get(request.connector, {})[n] for n in sorted(statuses.tasks.get(request.connector, {}))]
    return RestartPlan(request, _restarting(connector, restart), tuple(
        _restarting(t, request.include_tasks and (not request.only_failed or t.state is State.FAILED)) for t in tasks
    ))


def _restarting(status: Status, restart: bool) -> Status:
    return replace(status, state=State.RESTARTING) if restart else status


def state_info(plan_: RestartPlan) -> ConnectorStateInfo:
    """The answer to the request: the statuses, with RESTARTING for what will restart."""
    return ConnectorStateInfo(plan_.request.connector, plan_.connector, plan_.tasks)


def impact(request: RestartRequest) -> int:
    """How much a request restarts, to choose between two that wait for the same connector."""
    return 2 * request.include_tasks + (not request.only_failed)


def collect(turn: Turn, request: RestartRequest) -> None:
    """Keeps the request with the greater impact until it can be carried out."""
    waiting = turn.state.restarts.get(request.connector)
    if waiting is None or impact(request) > impact(waiting):
        turn.state = replace(turn.state, restarts={**turn.state.restarts, request.connector: request})


def process(turn: Turn) -> None:
    """Restarts this worker's part of every waiting plan."""
    waiting = turn.state.restarts
    turn.state = replace(turn.state, restarts={})
    for name in sorted(waiting):
        _restart(turn, waiting[name])


def _restart(turn: Turn, request: RestartRequest) -> None:
    if not turn.state.config.contains(request.connector):
        turn.log("DEBUG", "Ignoring a restart request: the connector does not exist", request.connector)
        return
    planned = plan(request, turn.statuses)
    if planned is None:
        turn.log("DEBUG", "Cannot restart: the connector has no status", request.connector)
        return
    tasks = turn.state.config.task_count(request.connector)
    for item in planned.items():
        stale = isinstance(item, ConnectorTaskId) and item.task >= tasks
        if item in turn.state.allocation and not stale:
            turn.log("DEBUG", f"Restarting (includeTasks={request.include_tasks}, "
                              f"onlyFailed={request.only_failed})", item)
            work.stop(turn, item, restart=RestartCause.RESTART)


def restart_automatically(turn: Turn, request: Restart) -> None:
    """Restarts automatically what has failed or stalled (errors.restart.*)."""
    if automatic_restarts.begin(turn, request):
        turn.log("DEBUG", f"Restarting after a {request.cause.value} (errors.restart.policy)", request.item)
        work.stop(turn, request.item, restart=request.cause)


def _elsewhere(turn: Turn, item: ItemId) -> RequestTargetError:
    kind = "task" if isinstance(item, ConnectorTaskId) else "connector"
    return elsewhere(turn, item, f"Cannot restart {kind} since it is not assigned to this member")


def elsewhere(turn: Turn, item: ItemId, message: str) -> RequestTargetError:
    """The error that names the worker that runs the item."""
    if not turn.state.is_leader or turn.state.membership is None:
        return NotLeaderError(message, turn.state.leader_url)
    return NotAssignedError(message, dict(turn.state.membership.owners).get(item))


def restart_item(turn: Turn, request_id: RequestId, item: ItemId) -> None:
    """Restarts one connector or task if it runs here; else answers with where it runs, or why it cannot run."""
    left_out = dict(turn.state.membership.left_out) if turn.state.membership is not None else {}
    if item in left_out:
        turn.reply(request_id, error=ConnectError(left_out[item]))
    elif item in turn.state.allocation:
        turn.stage(f"restarting {'task' if isinstance(item, ConnectorTaskId) else 'connector'} {item}")
        work.stop(turn, item, (request_id,), restart=RestartCause.REQUESTED)
        turn.stage_done()
    else:
        turn.reply(request_id, error=_elsewhere(turn, item))
