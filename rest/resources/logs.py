"""GET /connectors/NAME/logs: what this worker's log has about a connector. heeler's own, for operators."""

from __future__ import annotations

from flask import Blueprint, Response, request

from actors.errors import BadRequestError, NotFoundError
from rest.resources.front import Front
from rest.wire.answers import json_response
from storage.ids import ConnectorName


def blueprint(front: Front) -> Blueprint:
    """Where /admin/loggers is."""
    routes = Blueprint("logs", __name__)

    @routes.get("/connectors/<name:connector>/logs")
    def logs(connector: str) -> Response:
        count = request.args.get("lines", "200")
        if not (count.isascii() and count.isdigit() and int(count[:9])):
            raise BadRequestError(f"lines is {count}; it must be a number of at least 1")
        if not front.view.config.contains(ConnectorName(connector)):
            raise NotFoundError(f"Connector {connector} not found")
        return json_response({"name": connector, "lines": front.view.logs(connector)[-int(count[:9]):]})

    return routes
