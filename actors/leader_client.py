"""Sends task configs to the leader's REST API, as every Kafka Connect worker does (KIP-507 signs them)."""

from __future__ import annotations

import base64
import http.client
import json
import ssl
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, urlsplit

from actors.errors import RequestRefusedError
from actors.herder.effects import SendTaskConfigs
from actors.herder.events import TaskConfigsPublished
from actors.herder.signing import sign

TIMEOUT_S = 90


@dataclass(slots=True)
class LeaderClient:
    """One thread, as one connector after the other is what the leader's herder does anyway."""

    tell: Callable[[Any], None]
    algorithm: str
    tls: ssl.SSLContext | None = None
    _pool: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(1, "leader-client"))

    def send(self, effect: SendTaskConfigs) -> None:
        """Post in the background; ends in TaskConfigsPublished."""
        self._pool.submit(self._send, effect)

    def close(self) -> None:
        """Wait for nothing; what is queued is dropped."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _send(self, effect: SendTaskConfigs) -> None:
        error: Exception | None = None
        try:
            self._post(effect)
        except (OSError, http.client.HTTPException, RequestRefusedError) as caught:
            error = caught
        self.tell(TaskConfigsPublished(effect.op, error))

    def _post(self, effect: SendTaskConfigs) -> None:
        url = urlsplit(effect.leader_url)
        host, port = url.hostname or "", url.port
        connection = (http.client.HTTPSConnection(host, port, timeout=TIMEOUT_S, context=self.tls)
                      if url.scheme == "https" else http.client.HTTPConnection(host, port, timeout=TIMEOUT_S))
        body = json.dumps(effect.configs, separators=(",", ":")).encode()
        headers = {"Content-Type": "application/json", "Accept": "application/json", "User-Agent": "kafka-connect"}
        if effect.key is not None:
            signature = sign(effect.key, self.algorithm, body)
            headers["X-Connect-Authorization"] = base64.b64encode(signature.signature).decode()
            headers["X-Connect-Request-Signature-Algorithm"] = self.algorithm
        try:
            path = f"{url.path.rstrip('/')}/connectors/{quote(effect.connector, safe='')}/tasks"
            connection.request("POST", path, body, headers)
            response = connection.getresponse()
            text = response.read().decode(errors="replace")
        finally:
            connection.close()
        if response.status >= 300:
            raise RequestRefusedError(f"{effect.leader_url} answered {response.status}: {text}", response.status)
