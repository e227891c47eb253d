"""Forwards requests to other workers, and returns their responses and errors."""

from __future__ import annotations

import json
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from rest.errors import HttpError
from rest.json_text import dumps
from spark_tasks.process.worker_requests import WorkerResponse, WorkerUnreachableError, exchange


@dataclass(frozen=True, slots=True)
class Remote:
    """A successful response of another worker."""

    status: int
    body: Any


class Forwarder:
    """Sends one request to another worker over its own connection. Thread-safe.

    `tls` creates the context for https, and is called only if one is needed. `timeout_s` limits the time for
    connecting, and then the time until the response is complete.
    """

    def __init__(self, tls: Callable[[], ssl.SSLContext], timeout_s: float) -> None:
        self._tls = tls
        self._timeout_s = timeout_s

    @cached_property
    def _context(self) -> ssl.SSLContext:
        return self._tls()

    def send(self, method: str, url: str, body: Any, extra_headers: Mapping[str, str]) -> Remote:
        """Sends a request to a worker and returns its response. `body` is sent as JSON; None: no body.

        Raises HttpError: the other worker's error unchanged, or 500 for anything else.
        """
        headers = {"Accept": "application/json", "User-Agent": "kafka-connect", **extra_headers}
        data = None if body is None else dumps(body)
        if data is not None:
            headers["Content-Type"] = "application/json"
        status, content, _ = self._exchange(method, url, data, headers)
        if status == 204:
            return Remote(status, None)
        if status >= 400:
            raise _error_of(status, content)
        if not 200 <= status < 300:
            raise HttpError(500, f"Unexpected status code when handling forwarded request: {status}")
        return Remote(status, _parsed(content) if content else None)

    def _exchange(self, method: str, url: str, data: bytes | None, headers: Mapping[str, str]) -> WorkerResponse:
        try:
            return exchange(method, url, data, headers, tls=lambda: self._context, connect_s=self._timeout_s,
                            answer_s=self._timeout_s)
        except WorkerUnreachableError as error:
            raise HttpError(500, f"IO Error trying to forward REST request: {error}") from error
        except (ValueError, OSError) as error:  # an invalid address, or unreadable certificates
            raise HttpError(500, f"Error trying to forward REST request: {error}") from error


def _parsed(content: bytes) -> Any:
    try:
        return json.loads(content)
    except (ValueError, RecursionError) as error:
        raise HttpError(500, f"IO Error trying to forward REST request: the response is not JSON: {error}") from None


def _error_of(status: int, content: bytes) -> HttpError:
    parsed = _parsed(content)
    if not isinstance(parsed, dict) or not isinstance(parsed.get("error_code"), int):
        return HttpError(500, f"IO Error trying to forward REST request: status {status} without an error in the body")
    message = parsed.get("message")
    return HttpError(status, message if message is None else str(message), parsed["error_code"])
