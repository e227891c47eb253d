"""REST's applications for tests, created once for all workers with the same settings.

Werkzeug compiles every route again for each application, which takes longer than most tests of REST.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextvars import ContextVar
from functools import cache
from threading import Lock
from typing import Any

from werkzeug.test import Client

from rest.app import create_admin_app, create_app
from rest.server.keys import REST_KEYS
from rest.server.settings import RestSettings
from tests.rigs.fake_herder import FakeWorker

Wsgi = Callable[[dict[str, Any], Any], Iterable[bytes]]
_making = Lock()
_worker: ContextVar[FakeWorker] = ContextVar("the worker that answers the request of this thread")


class _Asked:
    """The worker that is being called."""

    def __getattr__(self, name: str) -> Any:
        return getattr(_worker.get(), name)


class _BySettings:
    """Settings as a key, because they contain dicts."""

    def __init__(self, settings: RestSettings) -> None:
        self.settings = settings

    def __hash__(self) -> int:
        return hash(repr(self.settings))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _BySettings) and self.settings == other.settings


def _app(make: Callable[..., Any], key: _BySettings) -> Any:
    with _making:  # several threads ask first; besides, ast.parse of Python 3.11 sometimes fails in parallel threads
        return _made(make, key)


@cache
def _made(make: Callable[..., Any], key: _BySettings) -> Any:
    return make(lambda *asked, **more: _worker.get().ask(*asked, **more), _Asked(), key.settings)


def _of(make: Callable[..., Wsgi], worker: FakeWorker, settings: RestSettings) -> Wsgi:
    def asked(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        _worker.set(worker)
        return _app(make, _BySettings(settings))(environ, start_response)

    return asked


def rest_settings(properties: Mapping[str, str]) -> RestSettings:
    """The settings in a worker's properties."""
    return RestSettings.of(REST_KEYS.parse(properties), properties)


def app_of(worker: FakeWorker, settings: RestSettings = RestSettings()) -> Any:  # noqa: B008
    """The application that `create_app` returns, created when it is first asked."""
    return _of(create_app, worker, settings)


def admin_app_of(worker: FakeWorker, settings: RestSettings) -> Any:
    """The application that `create_admin_app` returns, or None."""
    return _of(create_admin_app, worker, settings) if _app(create_admin_app, _BySettings(settings)) else None


def client_of(worker: FakeWorker, settings: RestSettings = RestSettings()) -> Client:  # noqa: B008
    """A client of the main listeners."""
    return Client(app_of(worker, settings))
