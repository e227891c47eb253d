"""HTTP rules for all resources: media types, CORS, extra headers, 404 before the worker has started.

Responses are those of Kafka Connect (docs/adr/0035).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from email.utils import formatdate
from http import HTTPStatus

import mimeparse
from flask import Flask, Response, request
from werkzeug.datastructures import HeaderSet
from werkzeug.exceptions import BadRequest, NotAcceptable, NotFound, UnsupportedMediaType

from rest.server.keys import HeaderRule
from rest.server.settings import Cors, RestSettings
from rest.wire.worker_view import WorkerView

JSON = "application/json"
ALWAYS = frozenset({"root.health", "metrics.metrics", "openapi.document", "openapi.page"})  # served without Kafka too
STATUS_LINES = {status.value: f"{status.value} {status.phrase}" for status in HTTPStatus}
ANY_BODY = frozenset({"root", "internal"})  # blueprints whose resources ignore a request's media type


def install(app: Flask, view: WorkerView, settings: RestSettings) -> None:
    """Applies the rules to an app."""

    @app.before_request
    def check() -> None:
        if request.routing_exception is not None or request.method == "OPTIONS":
            return
        if view.kafka_cluster_id is None and request.endpoint not in ALWAYS:
            raise NotFound
        if request.blueprint not in ANY_BODY:
            _check_content_type()
        if request.blueprint not in ("metrics", "openapi"):  # Prometheus and browsers do not ask for JSON
            _check_accept()

    app.after_request(_typed)
    if settings.cors is not None:
        app.after_request(_cors_headers(settings.cors))
    if settings.response_headers:
        app.after_request(_extra_headers(settings.response_headers))


def _typed(response: Response) -> Response:
    """Corrects the media type of responses that Flask makes by itself (to OPTIONS): text/html with an empty body. The
    status line has HTTP's words; Werkzeug writes them in capitals.
    """
    response.status = STATUS_LINES.get(response.status_code, response.status)
    if response.mimetype == "text/html" and request.endpoint != "openapi.page":
        response.mimetype = JSON
    return response


def json_body() -> bytes:
    """The request's body, for resources that read one. A body without a media type is refused."""
    body = request.get_data(cache=False)
    if body and not request.mimetype:
        raise UnsupportedMediaType
    return body


def _check_content_type() -> None:
    if request.mimetype in {"", JSON}:
        return
    if "/" not in request.mimetype:
        raise BadRequest
    raise UnsupportedMediaType


def _check_accept() -> None:
    accept = request.headers.get("Accept", "")
    if accept and accept != JSON and not any(list(map(_includes_json, accept.lower().split(",")))):
        raise NotAcceptable


def _includes_json(media_range: str) -> bool:
    """Whether a range of Accept includes JSON. Its quality does not matter, as in Kafka Connect."""
    try:
        kind, subtype, _ = mimeparse.parse_mime_type(media_range)
    except mimeparse.MimeTypeParseException:
        if "/" in media_range:
            raise BadRequest from None
        return False
    return kind in {"*", "application"} and subtype in {"*", "json"}


def _cors_headers(cors: Cors) -> Callable[[Response], Response]:
    def add(response: Response) -> Response:
        response.vary.add("Origin")  # also without an Origin: a cache must not give that response to a browser
        if request.origin is None or not cors.allows(request.origin):
            return response
        response.access_control_allow_origin = request.origin
        if request.method == "OPTIONS" and request.access_control_request_method:
            response.headers["Access-Control-Allow-Methods"] = cors.methods
            response.access_control_allow_headers = HeaderSet(["Content-Type"])
            response.access_control_max_age = 60
        return response

    return add


def _extra_headers(rules: tuple[HeaderRule, ...]) -> Callable[[Response], Response]:
    def add(response: Response) -> Response:
        for rule in rules:
            value = rule.value
            if rule.action.endswith("Date"):
                value = formatdate(time.time() + int(value) / 1000, usegmt=True)
            if rule.action.startswith("set"):
                response.headers[rule.name] = value
            else:
                response.headers.add(rule.name, value)
        return response

    return add
