"""A small client of Kafka Connect's REST API, for the demo and the tests."""

from __future__ import annotations

import http.client
import json
import ssl
import time
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote

from spark_tasks.errors import ConnectError

_FINAL: Final = 'already exists"}'  # of conflicts, the one that does not pass
_REBALANCING: Final = "Request cannot be completed because a rebalance is expected"  # a Java worker's reads: HTTP 500


class RestError(ConnectError):
    """The worker refused a request; `status` is the HTTP status."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"HTTP {status}: {message}")
        self.status = status


def _passes(status: int, text: str) -> bool:
    """Whether the same request may succeed a moment later."""
    return (status == 409 and not text.endswith(_FINAL)) or (status == 500 and _REBALANCING in text)


@dataclass(frozen=True, slots=True)
class RestClient:
    """Talks to one worker, with `tls` over https. Requests refused for as long as a rebalance is going on (409, and 500
    for reads that a Java worker is asked) are repeated for `patience` seconds.
    """

    host: str
    port: int
    patience: float = 30.0
    tls: ssl.SSLContext | None = None

    @property
    def url(self) -> str:
        """The worker's REST address."""
        return f"{'https' if self.tls else 'http'}://{self.host}:{self.port}"

    def call(self, method: str, path: str, body: Any = None) -> Any:
        """The parsed answer (None where it is empty); raises RestError from 400 on, OSError where nobody answers."""
        deadline = time.monotonic() + self.patience
        while True:
            status, text = self._once(method, path, body)
            if not _passes(status, text) or time.monotonic() > deadline:
                break
            time.sleep(0.1)
        try:
            answer = json.loads(text) if text else None
        except ValueError:
            answer = {"message": text}
        if status >= 400:
            raise RestError(status, str((answer or {}).get("message")))
        return answer

    def ready(self) -> bool:
        """Whether the worker answers requests."""
        try:
            return self._once("GET", "/", None)[0] == 200
        except OSError:
            return False

    def put_config(self, name: str, config: dict[str, str]) -> Any:
        """Create or update a connector."""
        return self.call("PUT", f"/connectors/{quote(name, safe='')}/config", config)

    def states(self, name: str) -> list[str]:
        """The state of the connector, then of each task; empty where there is no status yet."""
        try:
            status = self.call("GET", f"/connectors/{quote(name, safe='')}/status")
        except RestError as error:
            if error.status == 404:
                return []
            raise
        return [status["connector"]["state"], *(t["state"] for t in status["tasks"])]

    def failure(self, name: str) -> str | None:
        """The trace of the first failed part of a connector, if any failed."""
        try:
            status = self.call("GET", f"/connectors/{quote(name, safe='')}/status")
        except RestError:
            return None
        parts = [status["connector"], *status["tasks"]]
        return next((p.get("trace") or "(no trace)" for p in parts if p["state"] == "FAILED"), None)

    def _once(self, method: str, path: str, body: Any) -> tuple[int, str]:
        if self.tls is not None:
            connection: http.client.HTTPConnection = http.client.HTTPSConnection(
                self.host, self.port, timeout=95, context=self.tls)
        else:
            connection = http.client.HTTPConnection(self.host, self.port, timeout=95)
        try:
            data = None if body is None else json.dumps(body)
            connection.request(method, path, data, {"Content-Type": "application/json", "Accept": "application/json"})
            response = connection.getresponse()
            return response.status, response.read().decode(errors="replace")
        except http.client.HTTPException as error:
            raise OSError(f"{self.url} gave an invalid HTTP response: {error!r}") from error
        finally:
            connection.close()
