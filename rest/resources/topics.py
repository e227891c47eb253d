"""/connectors/{c}/topics: the topics that a connector has used (KIP-558)."""

from __future__ import annotations

from flask import Blueprint, Response

from actors.messages.requests import ResetTopics
from rest.errors import HttpError
from rest.resources.context import ResourceContext
from rest.server.settings import RestSettings
from rest.wire.responses import json_response, no_body
from storage.ids import ConnectorName


def blueprint(context: ResourceContext) -> Blueprint:
    """Routes of used topics; an unknown connector has none."""
    routes = Blueprint("topics", __name__, url_prefix="/connectors/<name:connector>/topics")

    @routes.get("")
    def topics(connector: ConnectorName) -> Response:
        _check_tracking(context.settings)
        return json_response({connector: {"topics": sorted(context.view.statuses.topics.get(connector, ()))}})

    @routes.put("/reset")
    def reset(connector: ConnectorName) -> Response:
        _check_tracking(context.settings)
        if not context.settings.topic_tracking_reset:
            raise HttpError(403, "Topic tracking reset is disabled.")
        context.herder.answer(ResetTopics(connector))
        return no_body(202)

    return routes


def _check_tracking(settings: RestSettings) -> None:
    if not settings.topic_tracking:
        raise HttpError(403, "Topic tracking is disabled.")
