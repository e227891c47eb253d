"""GET /openapi.json and GET /openapi: the description of this application's API, as JSON and as an HTML page."""

from __future__ import annotations

from functools import cache

from flask import Blueprint, Response, current_app

from rest.openapi.document import document, page
from rest.resources.context import ResourceContext
from rest.wire.responses import json_response


def blueprint(context: ResourceContext) -> Blueprint:
    """Routes of the document of the application that the blueprint is registered with."""
    routes = Blueprint("openapi", __name__)

    @cache
    def found() -> dict[str, object]:
        return document(current_app.url_map.iter_rules(), context.view.version)

    @routes.get("/openapi.json", endpoint="document")
    def as_json() -> Response:
        return json_response(found())

    @routes.get("/openapi", endpoint="page")
    def as_page() -> Response:
        response = Response(page(found()), content_type="text/html; charset=utf-8")
        response.headers["Content-Security-Policy"] = "default-src 'none'; style-src 'unsafe-inline'"
        return response

    return routes
