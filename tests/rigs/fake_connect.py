"""An HTTP server in place of a worker, for responses that a real worker never or seldom sends."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread
from typing import Any

Answer = tuple[int, Any]
"""A status, and a body: bytes as they are, anything else as JSON."""


@dataclass
class FakeConnect:
    """`answers`: by method and path, without the query.

    The responses of a list are sent one after another, and its last one repeatedly.
    """

    answers: dict[str, Answer | list[Answer]] = field(default_factory=dict)
    asked: list[tuple[str, Any]] = field(default_factory=list)  # method and target, body
    headers: list[dict[str, str]] = field(default_factory=list)
    url: str = ""
    ahead_s: float = 0.0  # of this server's clock
    responds: Event = field(default_factory=Event)  # until it is cleared

    def __post_init__(self) -> None:
        self.responds.set()

    def next_answer(self, request: str) -> Answer:
        """The next response for a request."""
        found = self.answers.get(request.partition("?")[0], (404, {"error_code": 404, "message": "HTTP 404 Not Found"}))
        if isinstance(found, list):
            return found.pop(0) if len(found) > 1 else found[0]
        return found


@contextmanager
def fake_connect(answers: dict[str, Any] | None = None) -> Iterator[FakeConnect]:
    """A fake that listens on a free port."""
    fake = FakeConnect(dict(answers or {}))

    class Handler(BaseHTTPRequestHandler):
        def answer(self) -> None:
            request = f"{self.command} {self.path}"
            sent = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            fake.asked.append((request, json.loads(sent) if sent else None))
            fake.headers.append(dict(self.headers))
            fake.responds.wait()
            status, body = fake.next_answer(request)
            if status == 0:  # the worker is killed before it responds
                self.connection.shutdown(socket.SHUT_RDWR)
                return
            data = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_PUT = do_POST = do_PATCH = do_DELETE = answer  # noqa: N815 - the library's names

        def date_time_string(self, timestamp: float | None = None) -> str:
            return super().date_time_string((timestamp or time.time()) + fake.ahead_s)

        def log_message(self, *_: Any) -> None:
            pass

    class Server(ThreadingHTTPServer):
        def handle_error(self, *_: Any) -> None:
            """Ignores that clients may disconnect."""

    with Server(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        fake.url = f"http://127.0.0.1:{server.server_port}"
        yield fake
        server.shutdown()
        thread.join()
