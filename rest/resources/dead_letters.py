"""/connectors/{name}/dead-letters/replay: replays a dead letter queue to its connector. An extension of heeler."""

from __future__ import annotations

from typing import Any

from flask import Blueprint, Response

from actors.errors import BadRequestError
from actors.messages.requests import ReplayDeadLetters
from rest.errors import HttpError
from rest.forwarding import Remote
from rest.json_text import plain
from rest.resources.context import ResourceContext
from rest.server.rules import json_body
from rest.wire.entities import ANYTHING, parse
from rest.wire.responses import json_response
from storage.ids import ConnectorName


def blueprint(context: ResourceContext) -> Blueprint:
    """Routes of replays, which the worker that runs the connector's first task answers."""
    routes = Blueprint("dead_letters", __name__, url_prefix="/connectors/<name:connector>/dead-letters")
    herder = context.herder

    @routes.post("/replay")
    def replay(connector: ConnectorName) -> Response:
        order = _order()
        return _response(herder.answer_or_forward(ReplayDeadLetters(connector, order), order), 202)

    @routes.get("/replay")
    def progress(connector: ConnectorName) -> Response:
        return _response(herder.answer_or_forward(ReplayDeadLetters(connector, None)), 200)

    return routes


def _order() -> dict[str, Any]:
    """The body: an object, which the replaying task checks, or nothing. A wrong body is 400, not 500 as in Kafka
    Connect, which has no such endpoint.
    """
    try:
        body = plain(parse(json_body(), ANYTHING))
    except HttpError as error:
        raise BadRequestError(str(error)) from error
    if not isinstance(body, dict | None):
        raise BadRequestError(
            "The request's body must be an object with dry_run, values, limit, filter and keeps_no_offsets, or empty")
    return body or {}


def _response(outcome: Any, status: int) -> Response:
    return json_response(outcome.body if isinstance(outcome, Remote) else outcome, status)
