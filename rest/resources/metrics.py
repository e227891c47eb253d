"""GET /metrics: the worker's metrics for Prometheus."""

from __future__ import annotations

from typing import Final

from flask import Blueprint, Response, request

from actors.errors import BadRequestError
from rest.resources.context import ResourceContext

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
NAMES: Final = ("java", "heeler")


def blueprint(context: ResourceContext) -> Blueprint:
    """The route of metrics; `?names=heeler` or `?names=java` selects a part of them."""
    routes = Blueprint("metrics", __name__)

    @routes.get("/metrics")
    def metrics() -> Response:
        wanted = request.args.get("names", ",".join(NAMES)).split(",")
        if not set(wanted) <= set(NAMES):
            raise BadRequestError(
                f"Invalid value {request.args['names']} for names: must be java, heeler or java,heeler")
        return Response(context.view.metrics(wanted), content_type=CONTENT_TYPE)

    return routes
