"""Every error is a JSON error, for any request: never an HTML page, a stack trace or an invalid response."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from werkzeug.test import Client

from rest.app import create_app
from rest.server.settings import RestSettings
from storage.ids import ConnectorName, TargetState
from tests.rigs.fake_herder import FakeWorker
from tests.rigs.fake_plugins import FILE

WORDS = ("connectors", "a", "config", "status", "tasks", "0", "-1", "restart", "pause", "resume", "stop", "offsets",
         "topics", "reset", "fence", "connector-plugins", "FileStreamSource", "validate", "admin", "loggers", "root",
         "health", "..", "%2F", "%", "%zz", "%C3%A9", "%FF", ";x=y", "", "{", "\x7f")
ANYTHING = st.text(max_size=8).map(lambda text: text.replace("?", "").replace("#", ""))
SEGMENT = st.one_of(st.sampled_from(WORDS), ANYTHING)
PATH = st.lists(SEGMENT, max_size=6).map(lambda segments: "/" + "/".join(segments))
KNOWN_PATH = st.sampled_from([
    "/connectors", "/connectors/a", "/connectors/a/config", "/connectors/a/offsets", "/connectors/a/tasks",
    "/connectors/a/fence", "/connectors/a/topics/reset", "/connectors/a/restart", "/connectors/a/tasks/0/restart",
    "/connector-plugins/FileStreamSource/config/validate", "/admin/loggers/x", "/connectors/a/stop",
    "/connectors/a/dead-letters/replay"])
METHOD = st.sampled_from(["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "TRACE", "BREW"])
SCALAR = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=10))
KEY = st.one_of(st.text(max_size=5), st.sampled_from([
    "name", "config", "initial_state", "initial_offsets", "offsets", "partition", "offset", "level", "connector.class",
    "topic", "topics"]))
JSON_VALUE = st.recursive(
    SCALAR, lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(KEY, inner, max_size=4)),
    max_leaves=12)
BODY = st.one_of(st.binary(max_size=40), JSON_VALUE.map(lambda value: json.dumps(value).encode()),
                 JSON_VALUE.map(lambda value: json.dumps(value).encode()[:-1]))
HEADER = st.sampled_from([
    ("Content-Type", "application/json"), ("Content-Type", "text/plain"), ("Content-Type", "json"),
    ("Content-Type", "application/json; charset=nonsense"), ("Accept", "text/html"), ("Accept", "*/*;q=x"),
    ("X-Connect-Authorization", "AAAA"), ("X-Connect-Authorization", "\u00e9"),
    ("X-Connect-Request-Signature-Algorithm", "HmacSHA256"), ("X-Connect-Request-Signature-Algorithm", "x"),
    ("Transfer-Encoding", "chunked"), ("Content-Length", "3"), ("Host", "\u00e9"), ("Origin", "x")])
QUERY = st.sampled_from(["", "?", "?expand=status&expand=info&expand=x", "?forward=true", "?includeTasks=true",
                         "?scope=cluster", "?connectorsOnly=x", "?version=[", "?%FF=%", "?a=b;c&&="])


def _worker() -> FakeWorker:
    worker = FakeWorker()
    config = {"name": "a", "connector.class": FILE + "FileStreamSourceConnector", "topic": "t"}
    worker.put(ConnectorName("a"), config, TargetState.STARTED, 1)
    return worker


WORKER = _worker()
APP = create_app(WORKER.ask, WORKER, RestSettings())


@given(METHOD, st.one_of(PATH, KNOWN_PATH), QUERY, BODY, st.lists(HEADER, max_size=3))
def test_every_answer_is_json(method: str, path: str, query: str, body: bytes, headers: list[tuple[str, str]]) -> None:
    raw = path.encode().decode("latin-1") + query
    answer = Client(APP).open("/", method=method, data=body, headers=headers, environ_overrides={"REQUEST_URI": raw})
    text = answer.get_data(as_text=True)
    assert "Traceback" not in text
    if answer.status_code >= 400 and method != "HEAD":
        error: Any = json.loads(text)
        assert error.keys() == {"error_code", "message"}
        assert error["error_code"] == answer.status_code
        assert answer.mimetype == "application/json"
    elif text:
        json.loads(text)
        assert answer.mimetype == "application/json"


NESTED = {depth: "[" * depth + "]" * depth for depth in (96, 101, 400, 600, 950, 1001, 5000)}
BODIES = {
    ("POST", "/connectors"): '{"name":"a","config":{"x":%s}}',
    ("PUT", "/connectors/a/config"): '{"x":%s}',
    ("PATCH", "/connectors/a/config"): '{"x":%s}',
    ("PATCH", "/connectors/a/offsets"): '{"offsets":[{"partition":{"p":%s},"offset":{"o":1}}]}',
    ("POST", "/connectors/a/tasks"): '[{"x":%s}]',
    ("PUT", "/connector-plugins/FileStreamSource/config/validate"): '{"x":%s}',
    ("PUT", "/admin/loggers/x"): '{"level":%s}',
}


@pytest.mark.parametrize("depth", NESTED)
@pytest.mark.parametrize("place", BODIES, ids=" ".join)
def test_bodies_that_nest_deeply_are_bad_requests(place: tuple[str, str], depth: int) -> None:
    """At 96 levels they are treated like those of one level: most keys require a string there."""
    method, path = place
    answer = Client(APP).open(path, method=method, data=BODIES[place] % NESTED[depth], content_type="application/json")
    if depth == 96:
        assert "nesting" not in answer.get_data(as_text=True)
    else:
        assert (answer.status_code, "nesting depth" in answer.get_data(as_text=True)) == (400, True)
