"""/connectors: list, create, describe, configure, delete."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from flask import Blueprint, Response, request

from actors.errors import BadRequestError, NotFoundError
from actors.messages.requests import DeleteConnector, GetConnector, GetTaskConfigs, PatchConnector, PutConnector
from rest.errors import HttpError
from rest.herder_client import HerderClient
from rest.resources.context import ResourceContext
from rest.server.rules import json_body
from rest.wire import responses
from rest.wire.entities import CONFIG, CREATE, parse
from rest.wire.responses import created_response, json_response, no_body
from rest.wire.worker_view import WorkerView
from spark_tasks.config.auto_tasks import as_put, stored
from storage.ids import Config, ConnectorName, ConnectorTaskId, TargetState

_logger = logging.getLogger(__name__)

STATE_NAMES = {TargetState.STARTED: "RUNNING", TargetState.PAUSED: "PAUSED", TargetState.STOPPED: "STOPPED"}


def blueprint(context: ResourceContext) -> Blueprint:
    """Routes of connectors and their configs, statuses and tasks."""
    routes = Blueprint("connectors", __name__, url_prefix="/connectors")
    herder, view = context.herder, context.view

    @routes.get("")
    def list_connectors() -> Response:
        if "expand" not in request.args:
            return json_response(view.config.connectors())
        return json_response(_expanded(view, request.args.getlist("expand")))

    @routes.post("")
    def create() -> Response:
        message, forwarded = _creation()
        return created_response(view, herder.answer_or_forward(message, forwarded))

    @routes.get("/<name:connector>")
    def describe(connector: ConnectorName) -> Response:
        return json_response(responses.connector_info(view, herder.answer(GetConnector(connector))))

    @routes.delete("/<name:connector>")
    def delete(connector: ConnectorName) -> Response:
        herder.answer_or_forward(DeleteConnector(connector))
        return no_body(204)

    @routes.get("/<name:connector>/config")
    def get_config(connector: ConnectorName) -> Response:
        return json_response(as_put(herder.answer(GetConnector(connector)).config))

    @routes.put("/<name:connector>/config")
    def put_config(connector: ConnectorName) -> Response:
        config = _named(connector, _config())
        return created_response(view, herder.answer_or_forward(PutConnector(connector, config, replace=True), config))

    @routes.patch("/<name:connector>/config")
    def patch_config(connector: ConnectorName) -> Response:
        patch = _patch(herder, connector)
        outcome = herder.answer_or_forward(PatchConnector(connector, patch), patch)
        return json_response(responses.changed_info(view, outcome))

    @routes.get("/<name:connector>/status")
    def status(connector: ConnectorName) -> Response:
        return json_response(responses.status_of(view, connector))

    @routes.get("/<name:connector>/tasks")
    def tasks(connector: ConnectorName) -> Response:
        return json_response([responses.task_info(task) for task in herder.answer(GetTaskConfigs(connector))])

    @routes.get("/<name:connector>/tasks/<task:task>/status")
    def task_status(connector: ConnectorName, task: int) -> Response:
        return json_response(responses.task_status_of(view, ConnectorTaskId(connector, task)))

    return routes


def _expanded(view: WorkerView, expansions: Sequence[str]) -> dict[str, Any]:
    parts = {"status": responses.status_of, "info": responses.info_of}
    wanted = [(expansion, parts[expansion]) for expansion in expansions if expansion in parts]
    if len(wanted) < len(expansions):
        _logger.debug("Ignoring unknown expansion types among %s", expansions)
    expanded: dict[str, Any] = {}
    for name in view.config.connectors():
        try:
            expanded[name] = {expansion: part(view, name) for expansion, part in wanted}
        except NotFoundError:  # created or removed a moment ago
            _logger.debug("Nothing to expand for connector %s", name)
    return expanded


def _creation() -> tuple[PutConnector, dict[str, Any]]:
    """The body of POST /connectors as a request, and as the body to forward."""
    body = parse(json_body(), CREATE)
    if body is None:
        raise HttpError(500, "The request has no body: a connector's name and config are expected")
    name = ConnectorName((body["name"] or "").strip(" \t\n\r\x0b\x0c"))
    config = _named(name, _present(body["config"]))
    state: TargetState | None = body["initial_state"]
    forwarded = {"name": name, "config": config, "initial_state": None if state is None else STATE_NAMES[state]}
    return PutConnector(name, config, replace=False, initial_state=state), forwarded


def pairs(offsets: list[dict[str, Any] | None]) -> tuple[tuple[Any, Any], ...]:
    """The offsets of a body in the form for the herder.

    A partition may be missing: whether that is an error depends on the connector's type, so the herder decides it.
    """
    if any(item is None for item in offsets):
        raise HttpError(500, "An item of the list of offsets is null: a partition and an offset are expected")
    return tuple((item["partition"], item["offset"]) for item in offsets if item is not None)


def _config() -> Config:
    return _present(parse(json_body(), CONFIG))


def _patch(herder: HerderClient, connector: ConnectorName) -> Config:
    body = parse(json_body(), CONFIG)
    if body is None:
        herder.answer(GetConnector(connector))  # an unknown connector is reported first
    return _present(body)


def _present(config: Config | None) -> Config:
    if config is None:
        raise HttpError(500, "The request has no config: an object with the connector's keys and values is expected")
    return stored(config)


def _named(name: str, config: Config) -> Config:
    """The config with the connector's name. Raises BadRequestError if it contains another one."""
    included = config.get("name")
    if included is None:
        return {**config, "name": name}
    if included != name:
        raise BadRequestError(
            f"Connector name configuration ({included}) doesn't match connector name in the URL ({name})")
    return config
