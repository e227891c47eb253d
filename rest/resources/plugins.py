"""/connector-plugins: the plugins installed on this worker, their configuration keys, and validation of configs."""

from __future__ import annotations

from flask import Blueprint, Response, request

from actors.errors import BadRequestError
from rest.errors import HttpError
from rest.resources.context import ResourceContext
from rest.server.rules import json_body
from rest.wire.entities import CONFIG, parse
from rest.wire.responses import json_response, plugin_info
from spark_tasks.config.auto_tasks import MAX, stored


def blueprint(context: ResourceContext) -> Blueprint:
    """Routes of plugins."""
    routes = Blueprint("plugins", __name__, url_prefix="/connector-plugins")
    view = context.view

    @routes.get("")
    def list_plugins() -> Response:
        only_connectors = (request.args.get("connectorsOnly") or "true").lower() == "true"  # also if it is empty
        shown = [p for p in view.plugins() if not only_connectors or p.kind in {"source", "sink"}]
        return json_response([plugin_info(plugin) for plugin in shown])

    @routes.get("/<name:plugin>/config")
    def plugin_config(plugin: str) -> Response:
        return json_response(view.plugin_config(plugin, request.args.get("version")))

    @routes.put("/<name:plugin>/config/validate")
    def validate(plugin: str) -> Response:
        config = parse(json_body(), CONFIG)
        if config is None:
            raise HttpError(500, "The request has no config: an object with keys and values is expected")
        included = config.get("connector.class")
        if included is not None and not _short(included).endswith(_short(plugin)):
            raise BadRequestError(f"Included connector type {included} does not match request type {plugin}")
        infos = context.herder.validation(wanted := stored(config))
        if wanted != config:
            for value in (info["value"] for info in infos["configs"] if info["value"]["name"] == MAX):
                value["value"] = config[MAX]
        return json_response(infos)

    return routes


def _short(name: str) -> str:
    """A class or alias without the word Connector at its end."""
    return name.removesuffix("Connector") or name
