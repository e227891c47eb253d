"""A client of Kafka Connect's REST API, Java's or heeler's: for the commands, the demo and the tests."""

from __future__ import annotations

import json
import re
import ssl
import time
from collections.abc import Mapping, Sequence
from email.utils import parsedate_to_datetime
from typing import Any, Final
from urllib.parse import quote, urlencode

from heeler.cli.console.safe_text import safe, safe_message
from spark_tasks.backoff import doubled
from spark_tasks.config.masking import process_secrets
from spark_tasks.errors import ConnectError
from spark_tasks.process.worker_requests import (
    PERMANENT_CONFLICT,
    ResponseTooLargeError,
    WorkerUnreachableError,
    exchange,
)

CONNECT_S: Final = 5.0
FIRST_PAUSE_S: Final = 0.1
LONGEST_PAUSE_S: Final = 1.0
RESPONSE_S: Final = 95.0  # Kafka Connect's own limit for a request is 90
_USER: Final = re.compile("//[^/?#]*@")
_TAG: Final = re.compile("<[^<>]*>")
_REBALANCING: Final = "Request cannot be completed because a rebalance is expected"  # a Java worker's reads: HTTP 500


class RestError(ConnectError):
    """The worker refused a request; `status` is the HTTP status."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"HTTP {status}: {message}")
        self.status = status
        self.message = message
        self.is_transient = is_transient(status, message)

    @property
    def exit_code(self) -> int:
        """The exit code of a command that fails with this error (docs/cli.md)."""
        if self.is_transient:
            return 6
        return 4 if self.status == 404 else 5 if self.status < 500 else 7


class UnreachableError(ConnectError, OSError):
    """No worker responds."""

    exit_code = 3


class UnexpectedResponseError(ConnectError):
    """The response is not Kafka Connect's, or is too large."""

    exit_code = 7


def is_transient(status: int, message: str) -> bool:
    """Whether the same request may succeed a moment later."""
    return (status == 409 and not message.endswith(PERMANENT_CONFLICT)) or (status == 500 and _REBALANCING in message)


def path_of(*parts: str) -> str:
    """A path of the API. Each part is percent-encoded, so that names may contain any character."""
    return "/" + "/".join(quote(part, safe="") for part in parts)


class ConnectClient:
    """Talks to one cluster through any worker that responds: `urls` are tried in turn, and the one that responded is
    tried first from then on.

    Requests refused because of a rebalance (409, and 500 for reads from a Java worker) are repeated for `timeout`
    seconds. `tls` is for https, `headers` go with each request.
    """

    def __init__(
        self, urls: Sequence[str], *, timeout: float = 30.0, tls: ssl.SSLContext | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        self.urls = [url.rstrip("/") for url in urls]
        self.timeout = timeout
        self.tls = tls
        self._headers = {"Accept": "application/json", "Connection": "close", **(headers or {})}

    @property
    def url(self) -> str:
        """The REST address that is tried first."""
        return self.urls[0]

    def call(self, method: str, path: str, body: Any = None, query: Mapping[str, Any] | None = None) -> Any:
        """The parsed response (None if it is empty).

        Raises RestError for a status of 400 or more, UnreachableError (an OSError) if no worker responds,
        UnexpectedResponseError if the response is not Kafka Connect's. `query` may have lists as values.
        """
        target = path + (f"?{urlencode(query, doseq=True)}" if query else "")
        deadline, attempts = time.monotonic() + self.timeout, 0
        while True:
            status, text = self._ask(method, target, body)
            if 300 <= status < 400:  # a worker never redirects: the request has not been carried out
                raise UnexpectedResponseError(f"{_shown(self.url)} redirects (HTTP {status}). Is that a Kafka "
                                              "Connect worker?")
            if status < 400:
                return _parsed(text, self.url)
            content = _object(text)
            if status == 404 and content is None:  # a worker's errors have JSON bodies, also for unknown paths
                raise UnexpectedResponseError(f"{_shown(self.url)} responds with HTTP 404 without JSON. Is that a "
                                              f"Kafka Connect worker? Its response: {_page(text)[:200]}")
            message = _message(text, content)
            left = deadline - time.monotonic()
            if not is_transient(status, message) or left <= 0:
                raise RestError(status, message)
            time.sleep(min(left, doubled(FIRST_PAUSE_S, attempts, LONGEST_PAUSE_S)))
            attempts += 1

    def clock(self) -> float | None:
        """By how many seconds the worker's clock is ahead of this machine's; None without a Date header.

        HTTP has times in whole seconds, so a difference of up to a second plus the response time means nothing. Raises
        the errors of `call` except RestError.
        """
        before = time.time()
        try:
            date = self._exchange(self.url, "GET", "/", None)[2]
        except WorkerUnreachableError as error:
            raise UnreachableError(f"{_shown(self.url)}: {safe_message(str(error))}") from error
        after = time.time()
        try:
            ahead = parsedate_to_datetime(date or "").timestamp()
        except (ValueError, OverflowError):
            return None
        return ahead + 1 - before if ahead + 1 < before else max(0.0, ahead - after)

    def fetch_text(self, url: str, target: str) -> str | None:
        """The response text of a worker at any address; None if it does not respond, or responds with an error.
        Credentials are sent only to `urls`.
        """
        try:
            status, text, _ = self._exchange(url, "GET", target, None, ours=url in self.urls)
        except (OSError, UnexpectedResponseError):
            return None
        return text if status == 200 else None

    def ready(self) -> bool:
        """Whether a worker serves requests."""
        try:
            return self._ask("GET", "/", None)[0] == 200
        except (OSError, UnexpectedResponseError):
            return False

    def put_config(self, name: str, config: Mapping[str, str]) -> Any:
        """Creates or updates a connector."""
        return self.call("PUT", path_of("connectors", name, "config"), dict(config))

    def failure(self, name: str) -> str | None:
        """The stack trace of the connector if it has failed, else of its first failed task, if any."""
        try:
            status = self.call("GET", path_of("connectors", name, "status"))
        except RestError:
            return None
        parts = [status["connector"], *status["tasks"]]
        return next((p.get("trace") or "(no trace)" for p in parts if p["state"] == "FAILED"), None)

    def _ask(self, method: str, target: str, body: Any) -> tuple[int, str]:
        """Sends the request to the first worker that responds. If a worker does not respond, but may have carried out
        the request, no other one is tried, unless the request changes nothing.
        """
        failed: list[str] = []
        for url in list(self.urls):
            try:
                status, text, _ = self._exchange(url, method, target, body)
            except WorkerUnreachableError as error:
                reason = safe_message(str(error))
                failed.append(f"{_shown(url)}: {reason}")
                if method != "GET" and error.sent:
                    raise UnreachableError(
                        f"{_shown(url)} did not respond to {method} {safe(target)}, but may have carried it out; check "
                        f"before you repeat it ({reason})") from error
            else:
                self.urls.remove(url)
                self.urls.insert(0, url)
                return status, text
        raise UnreachableError("No worker responds. Is one running there, and is the address right (--url, HEELER_URL)?"
                               + "".join(f"\n  {line}" for line in failed))

    def _exchange(
        self, url: str, method: str, target: str, body: Any, *, ours: bool = True
    ) -> tuple[int, str, str | None]:
        """Sends one request. Returns status, text and Date header of its response."""
        data = None if body is None else json.dumps(body).encode()
        headers = {k: v for k, v in self._headers.items() if ours or k != "Authorization"}
        if data is not None:
            headers["Content-Type"] = "application/json"
        try:
            response = exchange(method, url + target, data, headers, connect_s=CONNECT_S, answer_s=RESPONSE_S,
                                tls=lambda: self.tls or ssl.create_default_context())
        except ValueError as error:
            raise UnreachableError(f"{_shown(url)} is not the address of a worker: {error}") from error
        except ResponseTooLargeError as error:
            raise UnexpectedResponseError(f"{_shown(url)}: {error}. Is that a Kafka Connect worker?") from None
        return response.status, response.body.decode(errors="replace"), response.date


class RestClient(ConnectClient):
    """A client of one worker, by host and port; with `tls` over https."""

    def __init__(self, host: str, port: int, *, tls: ssl.SSLContext | None = None) -> None:
        super().__init__([f"{'https' if tls else 'http'}://{host}:{port}"], tls=tls)


def _parsed(text: str, url: str) -> Any:
    try:
        return json.loads(text) if text else None
    except (ValueError, RecursionError) as error:
        raise UnexpectedResponseError(f"The response of {_shown(url)} is not JSON. Is that a Kafka Connect worker? Its "
                                      f"response: {safe_message(text[:200])}") from error


def _object(text: str) -> dict[str, Any] | None:
    """The JSON object in a text; None if the text is not a JSON object."""
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return content if isinstance(content, dict) else None


def _message(text: str, content: Mapping[str, Any] | None) -> str:
    """The message in the body of an error, in which a plugin may quote a password of the request."""
    message, mask = (content or {}).get("message"), process_secrets().mask
    return safe_message(mask(message)) if isinstance(message, str) else _page(mask(text))


def _page(text: str) -> str:
    """The text of a body that is not Kafka Connect's; of HTML, the text without tags, in one line."""
    if text.lstrip().startswith("<"):
        text = " ".join(_TAG.sub(" ", text).split())
    return safe_message(text or "(no message)")


def _shown(url: str) -> str:
    """The URL without its password."""
    return safe(_USER.sub("//", url))
