"""/admin/loggers: the levels of loggers, on this worker or on all (KIP-495, KIP-976)."""

from __future__ import annotations

import logging
from typing import Any

from flask import Blueprint, Response, request

from actors.errors import BadRequestError, NotFoundError
from actors.messages.requests import SetClusterLoggerLevel
from rest.errors import HttpError
from rest.resources.context import ResourceContext
from rest.server.rules import json_body
from rest.wire.entities import CONFIG, parse
from rest.wire.responses import json_response, logger_level, no_body
from spark_tasks.process.log_levels import LEVELS, LONGEST_NAME

_logger = logging.getLogger(__name__)


def blueprint(context: ResourceContext) -> Blueprint:
    """Routes of loggers. Levels are kept until the worker ends."""
    routes = Blueprint("loggers", __name__, url_prefix="/admin/loggers")
    view = context.view

    @routes.get("")
    def list_loggers() -> Response:
        return json_response({name: logger_level(level) for name, level in sorted(view.loggers.levels().items())})

    @routes.get("/<name:logger>")
    def get_logger(logger: str) -> Response:
        level = view.loggers.level(logger)
        if level is None:
            raise NotFoundError(f"Logger {logger} not found.")
        return json_response(logger_level(level))

    @routes.put("/<name:logger>")
    def set_level(logger: str) -> Response:
        level = _level(parse(json_body(), CONFIG))
        if len(logger) > LONGEST_NAME:
            raise BadRequestError(f"The logger's name has {len(logger):,} characters; at most {LONGEST_NAME:,} are "
                                  "allowed.")
        scope = request.args.get("scope", "worker").lower()
        if scope == "cluster":
            context.herder.answer(SetClusterLoggerLevel(logger, level))
            return no_body(204)
        if scope != "worker":
            _logger.warning("Unknown scope %r in a request to set a logger's level: using worker", scope)
        return json_response(list(view.loggers.set_level(logger, level)))

    return routes


def _level(body: dict[str, Any] | None) -> str:
    if body is None:
        raise HttpError(500, "The request has no body: an object with a level is expected")
    level = body.get("level")
    if level is None:
        raise BadRequestError("Desired 'level' parameter was not specified in request.")
    if not level:
        raise HttpError(500, "Illegal null or empty Level name.")
    name = str(level).strip().upper()
    if name not in LEVELS:
        raise NotFoundError(f"invalid log level '{level}'.")
    return name
