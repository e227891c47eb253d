"""Asks the leader's REST API, as every Kafka Connect worker does (KIP-507 signs it): to publish task configs, and to
fence zombies (KIP-618).
"""

from __future__ import annotations

import base64
import http.client
import json
import ssl
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, urlsplit

from actors.errors import RequestRefusedError
from actors.herder.effects import SendTaskConfigs
from actors.herder.events import TaskConfigsPublished
from actors.herder.signing import sign
from spark_tasks.errors import ConnectError
from storage.config_state import SessionKey
from storage.ids import ConnectorName

TIMEOUT_S = 90


@dataclass(slots=True)
class LeaderClient:
    """One thread for task configs, as one connector after the other is what the leader's herder does anyway.

    `tls` makes the context for leaders with https listeners.
    """

    tell: Callable[[Any], None]
    algorithm: str
    tls: Callable[[], ssl.SSLContext]
    _pool: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(1, "leader-client"))
    _fencing: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(8, "leader-fencing"))

    def send(self, effect: SendTaskConfigs) -> None:
        """Post in the background; ends in TaskConfigsPublished."""
        self._pool.submit(self._send, effect)

    def fence(self, leader_url: str, connector: ConnectorName, key: SessionKey | None) -> Future[None]:
        """PUT /connectors/{c}/fence. The future fails with OSError, HTTPException or ConnectError."""
        path = f"/connectors/{quote(connector, safe='')}/fence"
        return self._fencing.submit(self._request, "PUT", leader_url, path, b"", key)

    def close(self) -> None:
        """Wait for nothing; what is queued is dropped."""
        self._pool.shutdown(wait=False, cancel_futures=True)
        self._fencing.shutdown(wait=False, cancel_futures=True)

    def _send(self, effect: SendTaskConfigs) -> None:
        error: Exception | None = None
        try:
            self._post(effect)
        except (OSError, http.client.HTTPException, ConnectError) as caught:
            error = caught
        self.tell(TaskConfigsPublished(effect.op, error))

    def _post(self, effect: SendTaskConfigs) -> None:
        body = json.dumps(effect.configs, separators=(",", ":")).encode()
        path = f"/connectors/{quote(effect.connector, safe='')}/tasks"
        self._request("POST", effect.leader_url, path, body, effect.key)

    def _request(self, method: str, leader_url: str, path: str, body: bytes, key: SessionKey | None) -> None:
        url = urlsplit(leader_url)
        host, port = url.hostname or "", url.port
        connection = (http.client.HTTPSConnection(host, port, timeout=TIMEOUT_S, context=self.tls())
                      if url.scheme == "https" else http.client.HTTPConnection(host, port, timeout=TIMEOUT_S))
        headers = {"Content-Type": "application/json", "Accept": "application/json", "User-Agent": "kafka-connect"}
        if key is not None:
            signature = sign(key, self.algorithm, body)
            headers["X-Connect-Authorization"] = base64.b64encode(signature.signature).decode()
            headers["X-Connect-Request-Signature-Algorithm"] = self.algorithm
        try:
            connection.request(method, url.path.rstrip("/") + path, body, headers)
            response = connection.getresponse()
            text = response.read().decode(errors="replace")
        finally:
            connection.close()
        if response.status >= 300:
            raise RequestRefusedError(f"{leader_url} answered {response.status}: {text}", response.status)
