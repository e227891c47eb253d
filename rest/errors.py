"""Turns all errors into responses of the form `{"error_code": 404, "message": "..."}`."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from flask import Response, request
from werkzeug.exceptions import HTTPException

from actors.errors import (
    AlreadyExistsError,
    BadRequestError,
    ConflictError,
    NotFoundError,
    RequestRefusedError,
)
from rest.json_text import dumps
from spark_tasks.config.masking import process_secrets
from spark_tasks.errors import ConfigError, ConnectError, message_of

_logger = logging.getLogger(__name__)


class HttpError(ConnectError):
    """An error with an HTTP status. `message` may be None and `code`, the body's error_code, may differ from the status
    in another worker's response.
    """

    def __init__(self, status: int, message: str | None, code: int | None = None) -> None:
        super().__init__(message or "")
        self.message = message
        self.status = status
        self.code = status if code is None else code


def error_body(code: int, message: str | None) -> bytes:
    """The body of an error, with secrets masked."""
    return dumps({"error_code": code, "message": message and process_secrets().mask(message)})


_STATUS: tuple[tuple[type[Exception], Callable[[Any], int]], ...] = (
    (HttpError, lambda error: error.status),
    (RequestRefusedError, lambda error: error.status),
    (NotFoundError, lambda _: 404),
    (AlreadyExistsError, lambda _: 409),
    (ConflictError, lambda _: 409),
    (BadRequestError, lambda _: 400),
)

_JAVA_NAMES: tuple[tuple[type[Exception], str], ...] = (
    (BadRequestError, "org.apache.kafka.connect.runtime.rest.errors.BadRequestException"),
    (NotFoundError, "org.apache.kafka.connect.errors.NotFoundException"),
    (ConfigError, "org.apache.kafka.common.config.ConfigException"),
    (ConnectError, "org.apache.kafka.connect.errors.ConnectException"),
)


def status_of(error: Exception) -> int:
    """The HTTP status for an error of the herder or of a plugin; 500 for unexpected errors."""
    return next((status(error) for kind, status in _STATUS if isinstance(error, kind)), 500)


def as_java(error: Exception) -> str:
    """The text of an error from another thread, as in Kafka Connect: clients strip the class name at its beginning.
    An exception that a Java plugin has thrown keeps its own; its stack trace is only logged.
    """
    if isinstance(error, ConnectError) and error.java_message is not None:
        return f"{error.java_class}: {error.java_message}"
    name = next((name for kind, name in _JAVA_NAMES if isinstance(error, kind)), type(error).__name__)
    return f"{name}: {error}"


def to_response(error: Exception) -> Response:
    """Flask's handler for every exception."""
    if isinstance(error, HTTPException):
        return _http_response(error)
    status = status_of(error)
    if status == 500:
        known = isinstance(error, ConnectError)
        _logger.log(logging.WARNING if known else logging.ERROR, "%s %s failed: %s", request.method, request.path,
                    message_of(error.__cause__ or error) or error,  # the cause may have a stack trace of Java
                    exc_info=None if known else error)
    if isinstance(error, HttpError):
        return json_error(status, error.code, error.message)
    return json_error(status, status, str(error))


def json_error(status: int, code: int, message: str | None) -> Response:
    """The response for an error."""
    return Response(error_body(code, message), status, mimetype="application/json")


def _http_response(error: HTTPException) -> Response:
    """Errors of werkzeug's routing and parsing, with the messages of JAX-RS."""
    status = error.code or 500
    response = json_error(status, status, f"HTTP {status} {error.name}")
    allow = error.get_response().headers.get("Allow")
    if allow is not None:
        response.headers["Allow"] = allow
    return response
