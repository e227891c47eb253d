"""Replay of a dead letter queue, which the connector's first task does on the worker that runs it."""

from __future__ import annotations

from actors.errors import BadRequestError, ConflictError, NotFoundError
from actors.herder import restarts
from actors.herder.effects import Delegate
from actors.herder.turn import Turn
from actors.messages.correlation_ids import RequestId
from actors.messages.requests import ReplayDeadLetters
from spark_tasks.config.connector_keys import QUEUE, queue_of
from storage.ids import ConnectorTaskId, TargetState


def replay(turn: Turn, request_id: RequestId, request: ReplayDeadLetters) -> None:
    """Passes the request to the task. If another worker runs the task, the answer names that worker; if a replay is
    impossible, the answer says why.
    """
    task = ConnectorTaskId(request.connector, 0)
    error = _refusal(turn, request)
    if error is None and task not in turn.state.allocation:
        error = restarts.elsewhere(turn, task, f"Cannot replay dead letters: {task} is not assigned to this member")
    if error is not None:
        turn.reply(request_id, error=error)
    else:
        turn.emit(Delegate(request_id, request))


def _refusal(turn: Turn, request: ReplayDeadLetters) -> Exception | None:
    name, config = request.connector, turn.state.config
    if not config.contains(name):
        return NotFoundError(f"Connector {name} not found")
    if not queue_of(config.connector_configs[name]):
        return BadRequestError(f"{name} has no dead letter queue: {QUEUE} is not set")
    state = config.target_state(name)
    if state is not TargetState.STARTED:
        now = "stopped" if state is TargetState.STOPPED else "paused"
        return BadRequestError(f"{name} is {now}: its first task replays dead letters, so it must be running. Resume "
                               f"it first (PUT /connectors/{name}/resume)")
    if not config.task_count(name):
        return ConflictError(f"{name} has no tasks yet: its first task replays dead letters. Try again")
    return None
