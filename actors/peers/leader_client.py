"""The client of the leader's internal REST API, as in every Kafka Connect worker: publishes task configs and requests
zombie fencing (KIP-618); requests are signed (KIP-507).
"""

from __future__ import annotations

import base64
import json
import socket
import ssl
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from actors.errors import RequestRefusedError
from actors.herder.effects import SendTaskConfigs
from actors.herder.events import TaskConfigsPublished
from actors.herder.request_signatures import sign
from spark_tasks.errors import ConnectError
from spark_tasks.process.worker_requests import exchange
from storage.config.state import SessionKey
from storage.daemon_pool import DaemonPool
from storage.ids import ConnectorName

CONNECT_S, TIMEOUT_S = 10, 90
LONGEST_TEXT = 10_000  # characters of an answer that are quoted in an error


@dataclass(slots=True)
class LeaderClient:
    """Task configs are sent by one thread, as the leader's herder handles one connector after the other anyway.

    `tls` creates the context for leaders with https listeners.
    """

    tell: Callable[[Any], None]
    algorithm: str
    tls: Callable[[], ssl.SSLContext]
    _pool: DaemonPool = field(default_factory=lambda: DaemonPool(1, "leader-client"))
    _fencing: DaemonPool = field(default_factory=lambda: DaemonPool(64, "leader-fencing"))
    _fenced: dict[tuple[str, ConnectorName, int], Future[None]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _leader_url: str | None = None
    _waiting: dict[socket.socket, str] = field(default_factory=dict)

    def follow(self, leader_url: str | None) -> None:
        """Sets the current leader, if known. Requests that wait for a former leader, which may hang, fail at once."""
        if leader_url in (None, self._leader_url):
            return
        with self._lock:
            self._leader_url = leader_url
            former = [sock for sock, url in self._waiting.items() if url != leader_url]
            for sock in former:
                with suppress(OSError):  # it has just been answered
                    socket.socket.shutdown(sock, socket.SHUT_RDWR)  # not TLS's shutdown, which sends close_notify

    def send(self, effect: SendTaskConfigs) -> None:
        """Posts in the background; results in TaskConfigsPublished."""
        self._pool.submit(self._send, effect)

    def fence(self, leader_url: str, connector: ConnectorName, generation: int, key: SessionKey | None) -> Future[None]:
        """PUT /connectors/{c}/fence, once for all tasks of a generation of task configs that ask at the same time. The
        future fails with OSError or ConnectError.
        """
        path = f"/connectors/{quote(connector, safe='')}/fence"
        which = leader_url, connector, generation
        with self._lock:
            self._fenced = {asked: future for asked, future in self._fenced.items() if not future.done()}
            if which not in self._fenced:
                self._fenced[which] = self._fencing.submit(self._request, "PUT", leader_url, path, b"", key)
            return self._fenced[which]

    def close(self) -> None:
        """Drops queued requests and ends those in progress, without waiting for responses."""
        self._pool.close()
        self._fencing.close()
        self.follow("")

    def _send(self, effect: SendTaskConfigs) -> None:
        error: Exception | None = None
        try:
            self._post(effect)
        except Exception as caught:  # noqa: BLE001 - the herder waits for an outcome, whatever the error
            error = caught
        self.tell(TaskConfigsPublished(effect.op, error))

    def _post(self, effect: SendTaskConfigs) -> None:
        body = json.dumps(effect.configs, separators=(",", ":")).encode()
        path = f"/connectors/{quote(effect.connector, safe='')}/tasks"
        self._request("POST", effect.leader_url, path, body, effect.key)

    def _request(self, method: str, leader_url: str, path: str, body: bytes, key: SessionKey | None) -> None:
        headers = {"Content-Type": "application/json", "Accept": "application/json", "User-Agent": "kafka-connect"}
        if key is not None:
            signature = sign(key, self.algorithm, body)
            headers["X-Connect-Authorization"] = base64.b64encode(signature.signature).decode()
            headers["X-Connect-Request-Signature-Algorithm"] = self.algorithm
        waiting: list[socket.socket] = []

        def connected(sock: socket.socket) -> None:
            self._wait(sock, leader_url)
            waiting.append(sock)

        self._check(leader_url)
        try:
            status, answer, _ = exchange(method, leader_url.rstrip("/") + path, body, headers, tls=self.tls,
                                         connect_s=CONNECT_S, answer_s=TIMEOUT_S, connected=connected)
        except ValueError as error:
            raise ConnectError(f"The leader's REST address {leader_url} is invalid: {error}") from error
        except OSError:
            self._check(leader_url)
            raise
        finally:
            with self._lock:
                for sock in waiting:
                    del self._waiting[sock]
        if status >= 300:
            text = answer.decode(errors="replace")
            raise RequestRefusedError(f"{leader_url} answered {status}: {text[:LONGEST_TEXT]}", status)

    def _check(self, leader_url: str) -> None:
        if self._leader_url not in (None, leader_url):
            raise ConnectionError(f"{leader_url} no longer leads the group")

    def _wait(self, sock: socket.socket, leader_url: str) -> None:
        with self._lock:
            self._check(leader_url)
            self._waiting[sock] = leader_url
