"""/connectors/{c}: pause, resume, stop and restart a connector, and restart a task."""

from __future__ import annotations

from flask import Blueprint, Response, request

from actors.messages.requests import (
    RestartConnectorAndTasks,
    RestartConnectorOnly,
    RestartTask,
    SetTargetState,
    StopConnectorRequest,
)
from rest.forwarding import Remote
from rest.resources.context import ResourceContext
from rest.wire.responses import json_response, no_body, state_info
from storage.config.state import RestartRequest
from storage.ids import ConnectorName, ConnectorTaskId, TargetState


def blueprint(context: ResourceContext) -> Blueprint:
    """Routes that change the state of connectors and tasks."""
    routes = Blueprint("lifecycle", __name__, url_prefix="/connectors")
    herder, view = context.herder, context.view

    @routes.put("/<name:connector>/pause")
    def pause(connector: ConnectorName) -> Response:
        herder.answer(SetTargetState(connector, TargetState.PAUSED))
        return no_body(202)

    @routes.put("/<name:connector>/resume")
    def resume(connector: ConnectorName) -> Response:
        herder.answer(SetTargetState(connector, TargetState.STARTED))
        return no_body(202)

    @routes.put("/<name:connector>/stop")
    def stop(connector: ConnectorName) -> Response:
        herder.answer_or_forward(StopConnectorRequest(connector))
        return no_body(204)

    @routes.post("/<name:connector>/restart")
    def restart(connector: ConnectorName) -> Response:
        include_tasks, only_failed = _flag("includeTasks"), _flag("onlyFailed")
        if not include_tasks and not only_failed:  # as before KIP-745
            herder.answer_or_forward(RestartConnectorOnly(connector))
            return no_body(204)
        message = RestartConnectorAndTasks(RestartRequest(connector, only_failed, include_tasks))
        flags = {"includeTasks": str(include_tasks).lower(), "onlyFailed": str(only_failed).lower()}
        outcome = herder.answer_or_forward(message, query=flags)
        return json_response(outcome.body if isinstance(outcome, Remote) else state_info(view, outcome), 202)

    @routes.post("/<name:connector>/tasks/<task:task>/restart")
    def restart_task(connector: ConnectorName, task: int) -> Response:
        herder.answer_or_forward(RestartTask(ConnectorTaskId(connector, task)))
        return no_body(204)

    return routes


def _flag(name: str) -> bool:
    return request.args.get(name, "").lower() == "true"
