"""Routing on raw paths: a connector's name may contain `/`, `%` and more if it is percent-encoded.

A WSGI server decodes the path, after which `a/b` and `a%2Fb` are the same. So the app routes on the raw path, and the
converters of its rules decode single segments.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any
from urllib.parse import unquote_to_bytes

from typing_extensions import override
from werkzeug.routing import BaseConverter, ValidationError

from rest.errors import error_body

StartResponse = Callable[..., Any]
WsgiApp = Callable[[dict[str, Any], StartResponse], Iterable[bytes]]

RAW_PATH = "heeler.raw_path"

_ENCODED = re.compile(r"%(?![0-9A-Fa-f]{2})")
_CONTROL = re.compile(rb"[\x00-\x1f\x7f]")


class NameConverter(BaseConverter):
    """A connector's, plugin's or logger's name."""

    regex = "[^/]+"
    part_isolating = True  # one segment, so that rules match segment by segment

    @override
    def to_python(self, value: str) -> str:
        """The percent-decoded name; RawPaths has checked that it is UTF-8."""
        return unquote_to_bytes(value).decode()


class TaskConverter(BaseConverter):
    """A task's number: a Java int."""

    regex = r"[+-]?[0-9]+"
    part_isolating = True

    @override
    def to_python(self, value: str) -> int:
        """The number."""
        number = int(value) if len(value) <= 11 else 2**31
        if not -(2**31) <= number < 2**31:
            raise ValidationError
        return number


class RawPaths:
    """WSGI middleware that replaces the decoded path by the raw one and refuses invalid paths."""

    def __init__(self, app: WsgiApp) -> None:
        self._app = app

    def __call__(self, environ: dict[str, Any], start_response: StartResponse) -> Iterable[bytes]:
        """Handles one request."""
        raw = _raw_path(environ)
        wrong = _defect(raw)
        if wrong is not None:
            body = error_body(400, wrong)
            headers = [("Content-Type", "application/json"), ("Content-Length", str(len(body)))]
            start_response("400 Bad Request", headers)
            return [body]
        # No resource uses matrix parameters (`/connectors/a;v=1`).
        environ["PATH_INFO"] = environ[RAW_PATH] = "/".join(part.partition(";")[0] for part in raw.split("/"))
        return self._app(environ, start_response)


def _raw_path(environ: dict[str, Any]) -> str:
    uri: str = environ.get("REQUEST_URI") or environ["PATH_INFO"]
    return uri.partition("?")[0].partition("#")[0]


def _defect(raw: str) -> str | None:
    """What is wrong with a path, in the words of Kafka Connect's server; None for a valid one."""
    if "//" in raw:
        return "Ambiguous URI empty segment"
    if _ENCODED.search(raw) is not None:
        return "Bad URI encoding"
    decoded = unquote_to_bytes(raw.encode("latin-1", "replace"))
    if _CONTROL.search(decoded) is not None:
        return "Suspicious Path Character"
    try:
        decoded.decode()
    except UnicodeDecodeError:
        return "Bad UTF-8 encoding"
    return None
