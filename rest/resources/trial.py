"""POST /connectors/try: runs a few records through a connector's configuration without keeping anything. An extension
of heeler.
"""

from __future__ import annotations

from typing import Any

from flask import Blueprint, Response

from actors.errors import BadRequestError
from rest.json_text import plain
from rest.resources.context import ResourceContext
from rest.server.rules import json_body
from rest.wire.entities import TRIAL, parse
from rest.wire.responses import json_response

MAX_RECORDS = 1000
DEFAULT_RECORDS = 5


def blueprint(context: ResourceContext) -> Blueprint:
    """The route of trials, which run on the worker that gets the request, in a separate process."""
    routes = Blueprint("trial", __name__, url_prefix="/connectors")
    view = context.view

    @routes.post("/try")
    def try_config() -> Response:
        body: dict[str, Any] | None = parse(json_body(), TRIAL, wrong=400)
        if body is None or body["config"] is None:
            raise BadRequestError("The request has no config: an object with the connector's keys is expected")
        if None in body["config"].values():
            raise BadRequestError("Null value can not be supplied as the configuration value.")
        limit = DEFAULT_RECORDS if body["limit"] is None else plain(body["limit"])
        if isinstance(limit, bool) or not isinstance(limit, int) or not 1 <= limit <= MAX_RECORDS:
            raise BadRequestError(f"limit must be a number from 1 to {MAX_RECORDS}")
        records = None if body["records"] is None else plain(body["records"])
        if records is not None and not isinstance(records, list):
            raise BadRequestError("records must be a list of objects, each with a value")
        return json_response(view.trial(body["config"], records, limit))

    return routes
