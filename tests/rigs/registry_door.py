"""A proxy in front of a schema registry, which wants credentials or is busy, and an OAuth server for it."""

from __future__ import annotations

import base64
import http.server
import json
import urllib.error
import urllib.parse
import urllib.request
from typing import Any


class Answers(http.server.BaseHTTPRequestHandler):
    """Answers with JSON. Its server has the attributes that `listening` was given."""

    server: Any

    def body(self) -> bytes:
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))

    def answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


class Door(Answers):
    """A proxy in front of the registry: accepts requests with the right header, and reports to be busy while `busy`."""

    def _pass(self) -> None:
        body = self.body() or None
        self.server.seen += 1
        self.server.headers = self.headers
        if self.server.busy:
            self.answer(503, b"{}")
            return
        if self.server.wanted not in (None, self.headers.get("Authorization")):
            self.answer(401, b'{"error_code": 401, "message": "who are you?"}')
            return
        request = urllib.request.Request(self.server.target + self.path, body, method=self.command,
                                         headers={"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                self.answer(answer.status, answer.read())
        except urllib.error.HTTPError as error:
            self.answer(error.code, error.read())

    do_GET = do_POST = _pass  # noqa: N815 - its base class asks for these


class TokenEndpoint(Answers):
    """Gives tokens of a minute: "token-1", "token-2", … to the client "heeler"; another client is refused."""

    def do_POST(self) -> None:
        form = urllib.parse.parse_qs(self.body().decode())
        self.server.asked.append(form)
        basic = base64.b64encode(b"heeler:sweet").decode()
        if self.server.down:
            status, body = 503, {"error": "temporarily_unavailable"}
        elif self.headers.get("Authorization") != f"Basic {basic}":
            status, body = 401, {"error": "invalid_client"}
        else:
            token = f"token-{len(self.server.asked)}"
            self.server.door.wanted = f"Bearer {token}"
            status, body = 200, {"access_token": token, "token_type": "Bearer", **self.server.lasts}
        self.answer(status, json.dumps(body).encode())
