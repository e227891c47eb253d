"""/openapi.json: every route and its responses are described; the page needs no network."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest
from werkzeug.test import Client

from rest.app import create_admin_app, create_app
from rest.openapi.operations import OPERATIONS
from rest.server.settings import RestSettings
from storage.ids import ConnectorName, ConnectorTaskId, State, TargetState
from storage.status.state import Status
from tests.rigs.fake_herder import WORKER, FakeWorker
from tests.rigs.fake_plugins import FILE
from tests.rigs.rest_apps import client_of, rest_settings

SOURCE = {"connector.class": FILE + "FileStreamSourceConnector", "topic": "t"}


def client() -> Client:
    return client_of(FakeWorker())


@pytest.fixture(scope="module")
def spec():
    answer = client().get("/openapi.json")
    assert answer.status_code == 200
    return answer.json


def test_every_route_is_described_and_nothing_else(spec):
    worker = FakeWorker()
    app = create_app(worker.ask, worker, RestSettings())
    assert {rule.endpoint for rule in app.url_map.iter_rules()} == set(OPERATIONS)
    routes = {(re.sub(r"<(?:\w+:)?(\w+)>", r"{\1}", rule.rule), method.lower())
              for rule in app.url_map.iter_rules() for method in rule.methods - {"HEAD", "OPTIONS"}}
    assert {(path, method) for path, methods in spec["paths"].items() for method in methods} == routes
    names = [o["operationId"] for methods in spec["paths"].values() for o in methods.values()]
    assert len(names) == len(set(names))


def test_every_reference_can_be_resolved_and_every_schema_is_used(spec):
    used = set(re.findall(r'"#/components/schemas/(\w+)"', json.dumps(spec)))
    assert used == set(spec["components"]["schemas"])
    for path, methods in spec["paths"].items():
        for operation in methods.values():
            named = {p["name"] for p in operation["parameters"] if p["in"] == "path"}
            assert named == set(re.findall(r"\{(\w+)\}", path))


def fits(value, schema, spec) -> bool:
    """The part of JSON Schema that the document uses."""
    if "$ref" in schema:
        return fits(value, spec["components"]["schemas"][schema["$ref"].rpartition("/")[2]], spec)
    if "oneOf" in schema:
        return sum(fits(value, one, spec) for one in schema["oneOf"]) == 1
    if value is None:
        return schema.get("nullable", not schema)
    kinds = {"string": str, "integer": int, "boolean": bool, "array": list, "object": dict}
    if "type" in schema and not isinstance(value, kinds[schema["type"]]):
        return False
    if "enum" in schema and value not in schema["enum"]:
        return False
    if isinstance(value, list):
        return all(fits(item, schema.get("items", {}), spec) for item in value)
    if isinstance(value, dict):
        known, more = schema.get("properties", {}), schema.get("additionalProperties", {})
        return set(schema.get("required", ())) <= set(value) and all(
            fits(item, known.get(key, more), spec) for key, item in value.items())
    return True


REQUESTS = [
    ("get", "/", None), ("get", "/health", None), ("post", "/connectors", {"name": "b", "config": SOURCE}),
    ("post", "/connectors", {"name": "a", "config": SOURCE}), ("get", "/connectors", None),
    ("get", "/connectors?expand=info&expand=status", None), ("get", "/connectors/{connector}", None),
    ("get", "/connectors/{connector}/config", None), ("put", "/connectors/{connector}/config", SOURCE),
    ("patch", "/connectors/{connector}/config", {"topic": "u"}), ("get", "/connectors/{connector}/status", None),
    ("get", "/connectors/{connector}/tasks", None), ("get", "/connectors/{connector}/tasks/{task}/status", None),
    ("put", "/connectors/{connector}/pause", None), ("put", "/connectors/{connector}/resume", None),
    ("post", "/connectors/{connector}/restart", None),
    ("post", "/connectors/{connector}/restart?includeTasks=true", None),
    ("post", "/connectors/{connector}/tasks/{task}/restart", None), ("get", "/connectors/{connector}/offsets", None),
    ("delete", "/connectors/{connector}/offsets", None), ("put", "/connectors/{connector}/stop", None),
    ("delete", "/connectors/{connector}/offsets", None), ("get", "/connectors/{connector}/topics", None),
    ("put", "/connectors/{connector}/topics/reset", None), ("get", "/connector-plugins", None),
    ("get", "/connector-plugins/{plugin}/config", None), ("put", "/admin/loggers/{logger}", {"level": "INFO"}),
    ("get", "/admin/loggers", None), ("get", "/admin/loggers/{logger}", None),
    ("put", "/admin/loggers/{logger}?scope=cluster", {"level": "WARN"}),
    ("get", "/connectors/{connector}/logs", None), ("delete", "/connectors/{connector}", None),
    ("get", "/connectors/{connector}/status", None), ("get", "/metrics", None), ("get", "/openapi.json", None),
]


def test_answers_are_as_described(spec):
    here = client()
    values = {"connector": "a", "task": "0", "plugin": "nobody", "logger": "x"}
    wrong = []
    for method, template, body in REQUESTS:
        answer = here.open(template.format(**values), method=method.upper(), json=body)
        reported = spec["paths"][template.partition("?")[0]][method]["responses"].get(str(answer.status_code))
        content = (reported or {}).get("content", {})
        if reported is None or (answer.data and answer.mimetype not in content) or (not answer.data and content):
            wrong.append((method, template, answer.status_code, answer.text))
        elif answer.mimetype == "application/json" and answer.data:
            schema = content["application/json"]["schema"]
            if not fits(answer.json, schema, spec):
                wrong.append((method, template, answer.json, schema))
    assert wrong == []


def test_a_status_without_a_version_is_as_described(spec):
    """A part that stops has none for a moment."""
    worker = FakeWorker()
    worker.put("c", SOURCE, TargetState.STARTED, 1)
    stopped = ConnectorTaskId(ConnectorName("c"), 0)
    worker.statuses = replace(
        worker.statuses, connectors={"c": Status("c", State.UNASSIGNED, WORKER, 1, version=None)},
        tasks={"c": {0: Status(stopped, State.UNASSIGNED, WORKER, 1, version=None)}})
    here = client_of(worker)
    for path, name in (("status", "ConnectorStatus"), ("tasks/0/status", "TaskStatus")):
        answer = here.get(f"/connectors/c/{path}").json
        assert (answer.get("connector") or answer)["version"] is None
        assert fits(answer, {"$ref": f"#/components/schemas/{name}"}, spec), answer


def test_the_page_names_every_path_and_needs_no_network(spec):
    answer = client().get("/openapi", headers={"Accept": "text/html"})
    assert (answer.status_code, answer.mimetype) == (200, "text/html")
    assert "default-src 'none'" in answer.headers["Content-Security-Policy"]

    links: list[str] = []

    class Links(HTMLParser):
        def handle_starttag(self, tag, attrs):
            assert tag not in ("script", "link", "img", "iframe")
            links.extend(value for key, value in attrs if key in ("href", "src"))

    Links().feed(answer.text)
    assert all(link.startswith("#") or link == "/openapi.json" for link in links)
    assert {link[1:] for link in links if link.startswith("#")} <= set(re.findall(r'id="(\w+)"', answer.text))
    assert all(path in answer.text for path in spec["paths"])


def test_the_admin_listener_describes_what_it_has():
    worker = FakeWorker()
    app = create_admin_app(worker.ask, worker, rest_settings({"admin.listeners": "http://localhost:9"}))
    paths = set(Client(app).get("/openapi.json").json["paths"])
    assert "/admin/loggers" in paths
    assert "/connectors" not in paths
