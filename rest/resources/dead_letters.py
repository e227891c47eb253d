"""/connectors/{name}/dead-letters/replay: a sink's dead letter queue into the sink once more. heeler's own."""

from __future__ import annotations

from typing import Any

from flask import Blueprint, Response

from actors.errors import BadRequestError
from actors.messages.requests import ReplayDeadLetters
from rest.errors import HttpError
from rest.forwarding import Remote
from rest.json_text import plain
from rest.resources.front import Front
from rest.server.rules import json_body
from rest.wire.answers import json_response
from rest.wire.entities import ANYTHING, parse
from storage.ids import ConnectorName


def blueprint(front: Front) -> Blueprint:
    """Answered by the worker of the connector's first task."""
    routes = Blueprint("dead_letters", __name__, url_prefix="/connectors/<name:connector>/dead-letters")
    herder = front.herder

    @routes.post("/replay")
    def replay(connector: ConnectorName) -> Response:
        order = _order()
        return _told(herder.answer_or_forward(ReplayDeadLetters(connector, order), order), 202)

    @routes.get("/replay")
    def progress(connector: ConnectorName) -> Response:
        return _told(herder.answer_or_forward(ReplayDeadLetters(connector, None)), 200)

    return routes


def _order() -> dict[str, Any]:
    """The body, an object or nothing; what it holds is looked at by who replays. Kafka Connect has no such endpoint
    whose 500 for a wrong body could be expected here.
    """
    try:
        body = plain(parse(json_body(), ANYTHING))
    except HttpError as error:
        raise BadRequestError(str(error)) from error
    if not isinstance(body, dict | None):
        raise BadRequestError("The request's body must be an object with dry_run, values, limit and filter, or empty")
    return body or {}


def _told(outcome: Any, status: int) -> Response:
    return json_response(outcome.body if isinstance(outcome, Remote) else outcome, status)
