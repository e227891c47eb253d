"""GET / and GET /health."""

from __future__ import annotations

from flask import Blueprint, Response

from rest.resources.context import ResourceContext
from rest.wire.responses import json_response


def blueprint(context: ResourceContext) -> Blueprint:
    """Routes of the worker itself."""
    routes = Blueprint("root", __name__)
    view = context.view

    @routes.get("/")
    def server_info() -> Response:
        return json_response(
            {"version": view.version, "commit": view.commit, "kafka_cluster_id": view.kafka_cluster_id})

    @routes.get("/health")
    def health() -> Response:
        code, status, message = context.herder.health()
        # Extensions of heeler: tasks of a healthy worker that have problems, and tasks that only wait for data.
        more = {"degraded": list(view.degraded()), "waiting": list(view.waiting())}
        shown = {name: entries for name, entries in more.items() if entries}
        return json_response({"status": status, "message": message, **shown}, code)

    return routes
