"""GET /connectors/{name}/logs: the lines of this worker's log about a connector. An extension of heeler."""

from __future__ import annotations

from flask import Blueprint, Response, request

from actors.errors import BadRequestError, NotFoundError
from rest.resources.context import ResourceContext
from rest.wire.responses import json_response
from storage.ids import ConnectorName


def blueprint(context: ResourceContext) -> Blueprint:
    """The route of logs, on the listeners that have /admin/loggers."""
    routes = Blueprint("logs", __name__)

    @routes.get("/connectors/<name:connector>/logs")
    def logs(connector: str) -> Response:
        count = request.args.get("lines", "200")
        if not (count.isascii() and count.isdigit() and int(count[:9])):
            raise BadRequestError(f"Invalid value {count} for lines: must be a number of at least 1")
        if not context.view.config.contains(ConnectorName(connector)):
            raise NotFoundError(f"Connector {connector} not found")
        return json_response({"name": connector, "lines": context.view.logs(connector)[-int(count[:9]):]})

    return routes
