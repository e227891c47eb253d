"""GET /connectors/{name}/story: what happened to a connector on this worker, and why.

If there are admin listeners, only those have it.
"""

from __future__ import annotations

from flask import Blueprint, Response

from actors.messages.requests import GetStory, StoryEntry
from rest.resources.context import ResourceContext
from rest.wire.responses import instant, json_response
from storage.ids import ConnectorName


def blueprint(context: ResourceContext) -> Blueprint:
    """The route of stories; each worker has only its own part of a connector's story."""
    routes = Blueprint("story", __name__, url_prefix="/connectors")

    @routes.get("/<name:connector>/story")
    def story(connector: ConnectorName) -> Response:
        entries: tuple[StoryEntry, ...] = context.herder.answer(GetStory(connector))
        return json_response({"connector": connector, "story": [
            {"at": instant(entry.at_ms), "cause": entry.cause, "because": entry.because, "what": entry.what,
             "effects": list(entry.effects)} for entry in entries]})

    return routes
