"""The HTTP server: a cheroot server for each listener, over the same Flask application."""

from __future__ import annotations

import logging
import socket
import ssl
import threading
from collections.abc import Iterable
from typing import Any

from flask import Flask

from rest.errors import error_body
from rest.server.http import HttpServer, TlsAdapter, connection_limit
from rest.server.keys import Listener
from rest.server.paths import StartResponse, WsgiApp
from rest.server.settings import RestSettings
from rest.server.tls import client_context, server_context
from spark_tasks.errors import ConfigError, PluginExitError, plugin_code
from spark_tasks.process.close_on_fork import close_on_fork

_logger = logging.getLogger(__name__)

STOP_TIMEOUT_S = 5.0


class RestServer:
    """Listens for REST requests: call `start`, then `refuse` while the worker shuts down, then `stop`.

    `servers`: one for each listener, those of `admin.listeners` last.
    """

    def __init__(self, settings: RestSettings, app: Flask, admin_app: Flask | None = None) -> None:
        self._settings = settings
        self._refusing = False
        self._max_connections = connection_limit(len(settings.listeners) + len(settings.admin_listeners or ()))
        self._main = [self._server(listener, app, settings.tls) for listener in settings.listeners]
        self.servers = list(self._main)
        if admin_app is not None:
            self.servers += [
                self._server(listener, admin_app, settings.admin_tls) for listener in settings.admin_listeners or ()]
        self._threads: list[threading.Thread] = []

    def start(self) -> None:
        """Binds all listeners and serves them in the background. Raises ConfigError if one cannot be bound."""
        try:
            for server in self.servers:
                server.prepare()
        except OSError as error:
            self.stop()
            raise ConfigError(f"REST cannot listen on {_shown(server.bind_addr)}: {error}. Set another address in "
                              "listeners (or admin.listeners), or stop the program that uses this one") from error
        for server in self.servers:
            close_on_fork(server.socket)
            name = f"rest-{server.bind_addr[1]}"
            thread = threading.Thread(target=server.serve, name=name, daemon=True)
            thread.start()
            self._threads.append(thread)
            _logger.info("REST listens on %s", _shown(server.bind_addr))

    def client_tls(self) -> ssl.SSLContext:
        """The TLS context for requests to other workers with https listeners. Raises ConfigError."""
        return client_context(self._settings.tls)

    def refuse(self) -> None:
        """Answers new requests with 503 and closes their connections; requests in progress are finished."""
        self._refusing = True

    def stop(self) -> None:
        """Stops listening and closes all connections; requests in progress have five seconds to finish."""
        self._refusing = True
        stoppers = [threading.Thread(target=server.stop, daemon=True) for server in self.servers]
        for stopper in stoppers:
            stopper.start()
        for thread in (*stoppers, *self._threads):
            thread.join(STOP_TIMEOUT_S * 2)
        self._threads.clear()

    @property
    def advertised(self) -> tuple[str, int]:
        """Host and port for other workers and clients; available after `start`."""
        settings = self._settings
        protocol = settings.advertised_protocol
        chosen = next(
            ((listener, server) for listener, server in zip(settings.listeners, self._main, strict=True)
             if listener.protocol == protocol), (settings.listeners[0], self._main[0]))
        own = chosen[0].host
        host = settings.advertised_host or (_own_address() if own in ("", "0.0.0.0", "::") else own)
        return host, settings.advertised_port or chosen[1].bind_addr[1]

    @property
    def advertised_url(self) -> str:
        """The address in the group's metadata, such as `http://10.0.0.7:8083/`."""
        host, port = self.advertised
        return f"{self._settings.advertised_protocol}://{_bracketed(host)}:{port}/"

    @property
    def worker_id(self) -> str:
        """`host:port`, as in statuses."""
        host, port = self.advertised
        return f"{_bracketed(host)}:{port}"

    def _server(self, listener: Listener, app: Flask, tls: Any) -> HttpServer:
        address = (listener.host or _any_address(), listener.port)
        server = HttpServer(address, self._guarded(app), self._settings.max_body_bytes, self._max_connections)
        server.shutdown_timeout = STOP_TIMEOUT_S
        if listener.protocol == "https":
            server.ssl_adapter = TlsAdapter(server_context(tls))
        return server

    def _guarded(self, app: WsgiApp) -> WsgiApp:
        def serve(environ: dict[str, Any], start_response: StartResponse) -> Iterable[bytes]:
            status, message = "503 Service Unavailable", "The worker is shutting down"
            if not self._refusing:
                try:
                    with plugin_code():  # cheroot would end after SystemExit
                        return app(environ, start_response)
                except PluginExitError as error:
                    _logger.exception("%s %s failed", environ["REQUEST_METHOD"], environ["REQUEST_URI"])
                    status, message = "500 Internal Server Error", str(error)
            body = error_body(int(status[:3]), message)
            start_response(status, [
                ("Content-Type", "application/json"), ("Content-Length", str(len(body))), ("Connection", "close")])
            return [body]

        return serve


def _any_address() -> str:
    return "::" if socket.has_dualstack_ipv6() else "0.0.0.0"


def _own_address() -> str:
    try:
        return socket.gethostbyname(socket.gethostname())
    except OSError:
        return "127.0.0.1"


def _bracketed(host: str) -> str:
    """The host as in a URL: an IPv6 address is in brackets, which rest.advertised.host.name may contain already."""
    return f"[{host}]" if ":" in host and not host.startswith("[") else host


def _shown(address: tuple[str, int]) -> str:
    return f"{_bracketed(address[0])}:{address[1]}"
