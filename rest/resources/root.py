"""GET / and GET /health."""

from __future__ import annotations

from flask import Blueprint, Response

from rest.resources.front import Front
from rest.wire.answers import json_response


def blueprint(front: Front) -> Blueprint:
    """The worker itself."""
    routes = Blueprint("root", __name__)
    view = front.view

    @routes.get("/")
    def server_info() -> Response:
        return json_response(
            {"version": view.version, "commit": view.commit, "kafka_cluster_id": view.kafka_cluster_id})

    @routes.get("/health")
    def health() -> Response:
        code, status, message = front.herder.health()
        degraded = list(view.degraded())  # heeler's own: the worker is well, some of its tasks are not
        more = {"degraded": degraded} if degraded else {}
        return json_response({"status": status, "message": message, **more}, code)

    return routes
