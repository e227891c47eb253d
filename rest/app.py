"""The Flask applications of a worker: the public one, and the admin one if it has its own listeners."""

from __future__ import annotations

from collections.abc import Callable

from flask import Blueprint, Flask

from rest import errors
from rest.forwarding import Forwarder
from rest.herder_client import AskHerder, HerderClient
from rest.resources import (
    connectors,
    dead_letters,
    internal,
    lifecycle,
    loggers,
    logs,
    metrics,
    offsets,
    openapi,
    plugins,
    root,
    story,
    topics,
    trial,
)
from rest.resources.context import ResourceContext
from rest.server import rules as http_rules
from rest.server.paths import NameConverter, RawPaths, TaskConverter
from rest.server.settings import RestSettings
from rest.server.tls import client_context
from rest.wire.worker_view import WorkerView

PUBLIC = (root, connectors, lifecycle, offsets, dead_letters, topics, plugins, trial, internal, metrics, openapi)
ADMIN = (loggers, logs, story)
GRACE_S = 5.0  # so that another worker can report its own timeout before this worker gives up


def create_app(ask: AskHerder, view: WorkerView, settings: RestSettings) -> Flask:
    """The application of the main listeners. `ask` sends a request to the herder and returns its future."""
    modules = (*PUBLIC, *ADMIN) if settings.admin_on_main else PUBLIC
    return _app(ask, view, settings, [module.blueprint for module in modules])


def create_admin_app(ask: AskHerder, view: WorkerView, settings: RestSettings) -> Flask | None:
    """The application of `admin.listeners`; None if there are none."""
    if settings.admin_on_main or not settings.admin_listeners:
        return None
    return _app(ask, view, settings, [module.blueprint for module in (*ADMIN, metrics, openapi)])


def _app(
    ask: AskHerder, view: WorkerView, settings: RestSettings, blueprints: list[Callable[[ResourceContext], Blueprint]]
) -> Flask:
    app = Flask("heeler", static_folder=None)
    app.url_map.merge_slashes = False
    app.url_map.strict_slashes = False
    app.url_map.converters.update(name=NameConverter, task=TaskConverter)
    app.register_error_handler(Exception, errors.to_response)
    client = Forwarder(lambda: client_context(settings.tls), settings.request_timeout_s + GRACE_S)
    context = ResourceContext(HerderClient(ask, view, settings, client), view, settings)
    http_rules.install(app, view, settings)
    for make in blueprints:
        app.register_blueprint(make(context))
    app.wsgi_app = RawPaths(app.wsgi_app)  # type: ignore[method-assign]
    return app
