"""A schema registry with GUIDs, as Confluent's since Platform 8; Apicurio's has none.

It has only the requests that clients need to write and read records.
"""

from __future__ import annotations

import http.server
import json
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from spark_tasks.registry.client import shared


class GuidRegistry:
    """If `guids` is False, it returns ids only. Each schema text has one id, whatever its subject is."""

    def __init__(self, *, guids: bool = True) -> None:
        self.guids = guids
        self.schemas: list[dict[str, Any]] = []
        self.subjects: dict[str, list[int]] = {}
        self.url = ""
        self.requests: list[str] = []  # their paths
        self.unknown: dict[str, Any] = {"error_code": 40403, "message": "Schema not found"}

    def ids_asked(self) -> list[int]:
        """The ids in the requests for a schema."""
        return [int(path.rpartition("/")[2]) for path in self.requests if path.startswith("/schemas/ids/")]

    def guid(self, number: int) -> str:
        return str(uuid.UUID(int=0xABC0 + number))

    def described(self, number: int, subject: str | None = None) -> dict[str, Any]:
        """A schema as a response."""
        named = {"subject": subject, "version": self.subjects[subject].index(number) + 1} if subject else {}
        guid = {"guid": self.guid(number)} if self.guids else {}
        return {"id": number, **guid, **named, **self.schemas[number - 1]}

    def answer(self, method: str, path: str, body: Any) -> dict[str, Any] | None:
        """The response to a request; None if there is no such thing. `path`: with its query."""
        url = urlsplit(path)
        match method, [unquote(part) for part in url.path.strip("/").split("/")]:
            case "POST", ["subjects", subject, "versions"]:
                return self.described(self._register(subject, body), subject)
            case "POST", ["subjects", subject]:
                known = self.subjects.get(subject, ())
                return next((self.described(n, subject) for n in known if self.schemas[n - 1] == _kept(body)), None)
            case "GET", ["subjects", subject, "versions", "latest"] if subject in self.subjects:
                return self.described(self.subjects[subject][-1], subject)
            case "GET", ["subjects", subject, "metadata"]:
                query = parse_qs(url.query, keep_blank_values=True)
                wanted = dict(zip(query["key"], query["value"], strict=True)).items()
                known = reversed(self.subjects.get(subject, ()))
                return next((self.described(n, subject) for n in known if wanted <= self._properties(n).items()), None)
            case "GET", ["subjects", subject, "versions", number] if subject in self.subjects:
                return self.described(self.subjects[subject][int(number) - 1], subject)
            case "GET", ["schemas", "ids", number] if 0 < int(number) <= len(self.schemas):
                return self.described(int(number))
            case "GET", ["schemas", "guids", guid]:
                there = range(1, len(self.schemas) + 1)
                return next((self.described(n) for n in there if self.guids and self.guid(n) == guid), None)
        return None

    def _properties(self, number: int) -> dict[str, str]:
        return self.schemas[number - 1].get("metadata", {}).get("properties", {})  # type: ignore[no-any-return]

    def _register(self, subject: str, body: Any) -> int:
        schema = _kept(body)
        if schema not in self.schemas:
            self.schemas.append(schema)
        number = self.schemas.index(schema) + 1
        mine = self.subjects.setdefault(subject, [])
        if number not in mine:
            mine.append(number)
        return number


def _kept(body: Any) -> dict[str, Any]:
    return {key: body[key] for key in ("schema", "schemaType", "references") if body.get(key)}


@contextmanager
def guid_registry(*, guids: bool = True) -> Iterator[GuidRegistry]:
    """A registry that listens."""
    registry = GuidRegistry(guids=guids)
    shared.cache_clear()  # its port may have been that of another one, whose answers are remembered

    class Handler(http.server.BaseHTTPRequestHandler):
        def handle_one(self) -> None:
            size = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(size)) if size else None
            registry.requests.append(self.path)
            found = registry.answer(self.command, self.path, body)
            text = json.dumps(found or registry.unknown).encode()
            self.send_response(200 if found else 404)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        do_GET = do_POST = handle_one  # noqa: N815 - its base class asks for these

        def log_message(self, *_: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    registry.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield registry
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
