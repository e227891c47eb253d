"""/connectors/{c}/offsets: read, alter and reset (KIP-875)."""

from __future__ import annotations

from typing import Any

from flask import Blueprint, Response

from actors.errors import BadRequestError
from actors.messages.requests import AlterOffsets, GetOffsets
from rest.errors import HttpError
from rest.forwarding import Remote
from rest.resources.connectors import pairs
from rest.resources.context import ResourceContext
from rest.server.rules import json_body
from rest.wire import responses
from rest.wire.entities import OFFSETS, parse
from rest.wire.responses import json_response
from storage.ids import ConnectorName


def blueprint(context: ResourceContext) -> Blueprint:
    """Routes of connectors' offsets."""
    routes = Blueprint("offsets", __name__, url_prefix="/connectors/<name:connector>/offsets")
    herder = context.herder

    @routes.get("")
    def get_offsets(connector: ConnectorName) -> Response:
        return json_response(responses.offsets(herder.answer(GetOffsets(connector))))

    @routes.patch("")
    def alter(connector: ConnectorName) -> Response:
        offsets = _offsets()
        outcome = herder.answer_or_forward(AlterOffsets(connector, pairs(offsets)), {"offsets": offsets})
        return _message(outcome)

    @routes.delete("")
    def reset(connector: ConnectorName) -> Response:
        return _message(herder.answer_or_forward(AlterOffsets(connector, None)))

    return routes


def _offsets() -> list[dict[str, Any] | None]:
    body = parse(json_body(), OFFSETS)
    if body is None:
        raise HttpError(500, "The request has no body: an object with a list of offsets is expected")
    if not body["offsets"]:
        raise BadRequestError("Partitions / offsets need to be provided for an alter offsets request")
    offsets: list[dict[str, Any] | None] = body["offsets"]
    return offsets


def _message(outcome: Any) -> Response:
    return json_response(outcome.body if isinstance(outcome, Remote) else {"message": outcome})
