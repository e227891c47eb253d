"""Requests between workers: task configs for the leader to publish, and zombie fencing (KIP-507, KIP-618)."""

from __future__ import annotations

from flask import Blueprint, Response, request

from actors.messages.requests import FenceZombies, PutTaskConfigs
from rest.errors import HttpError
from rest.resources.context import ResourceContext
from rest.wire.entities import TASK_CONFIGS, parse
from rest.wire.responses import no_body
from rest.wire.signature_headers import signature_of
from storage.ids import ConnectorName


def blueprint(context: ResourceContext) -> Blueprint:
    """Routes of requests that are signed over the bytes of the body; the herder checks the signature."""
    routes = Blueprint("internal", __name__, url_prefix="/connectors")

    @routes.post("/<name:connector>/tasks")
    def put_task_configs(connector: ConnectorName) -> Response:
        body = request.get_data(cache=False)
        if not body:
            raise HttpError(500, "No content to map due to end-of-input")
        configs = parse(body, TASK_CONFIGS) or ()
        signature = signature_of(request.headers, body)
        context.herder.answer_or_forward(PutTaskConfigs(connector, tuple(configs), signature), configs)
        return no_body(204)

    @routes.put("/<name:connector>/fence")
    def fence(connector: ConnectorName) -> Response:
        signature = signature_of(request.headers, request.get_data(cache=False))
        context.herder.answer_or_forward(FenceZombies(connector, signature))
        return no_body(204)

    return routes
