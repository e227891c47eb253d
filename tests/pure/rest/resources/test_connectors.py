"""`tasks.max=auto` is answered as it was put, by every endpoint; what is stored, and sent to other workers, is a number
(ADR 0043).
"""

from __future__ import annotations

import json
from typing import Any

from actors.errors import NotLeaderError
from tests.rigs.fake_herder import FakeWorker
from tests.rigs.fake_plugins import FILE, validation_key
from tests.rigs.rest_apps import client_of
from tests.rigs.serving import ports_of, serving, stub

SINK = {"connector.class": FILE + "FileStreamSinkConnector", "topics": "t", "tasks.max": "auto", "tasks.auto.max": "8"}
SHOWN = {**SINK, "name": "a"}
STORED = {**SHOWN, "tasks.max": "8"}


def test_tasks_max_auto_is_shown_as_it_was_put() -> None:
    worker = FakeWorker()
    client = client_of(worker)

    def config_of(answer: Any) -> Any:
        assert answer.status_code in {200, 201}, answer.json
        return answer.json["config"]

    assert config_of(client.post("/connectors", json={"name": "a", "config": SINK})) == SHOWN
    assert worker.config.connector_configs["a"] == STORED
    assert config_of(client.put("/connectors/a/config", json=SINK)) == SHOWN
    assert client.get("/connectors/a/config").json == SHOWN
    assert config_of(client.get("/connectors/a")) == SHOWN
    listed = client.get("/connectors?expand=info").json
    assert listed is not None
    assert listed["a"]["info"]["config"] == SHOWN
    assert config_of(client.patch("/connectors/a/config", json={"x": "1"})) == {**SHOWN, "x": "1"}
    fixed = {"tasks.max": "3", "tasks.auto.max": None}
    assert config_of(client.patch("/connectors/a/config", json=fixed))["tasks.max"] == "3"
    auto = {"tasks.max": "auto", "tasks.auto.max": "8"}
    assert config_of(client.patch("/connectors/a/config", json=auto)) == {**SHOWN, "x": "1"}
    assert worker.config.connector_configs["a"] == {**STORED, "x": "1"}


def test_a_validation_shows_tasks_max_auto() -> None:
    worker = FakeWorker()
    worker.validations[validation_key({**STORED})] = {"configs": [
        {"value": {"name": "topics", "value": "t"}}, {"value": {"name": "tasks.max", "value": "8"}}]}
    answer = client_of(worker).put(f"/connector-plugins/{SINK['connector.class']}/config/validate", json=SHOWN).json
    assert answer is not None
    assert [one["value"]["value"] for one in answer["configs"]] == ["t", "auto"]


def test_tasks_max_auto_is_forwarded_as_a_number() -> None:
    """The leader may be a Java worker."""
    with stub(200, {"name": "a", "config": STORED, "tasks": [], "type": "sink"}) as java:
        client = client_of(FakeWorker(redirect=NotLeaderError("no", f"http://127.0.0.1:{java.port}/")))
        put = client.put("/connectors/a/config", json=SINK)
        assert put.json is not None
        assert put.json["config"] == SHOWN
        assert [json.loads(body) for *_, body in java.requests] == [STORED]
    leader = FakeWorker()
    with serving(leader) as server:
        client = client_of(FakeWorker(redirect=NotLeaderError("no", f"http://127.0.0.1:{ports_of(server)[0]}/")))
        assert client.post("/connectors", json={"name": "a", "config": SINK}).status_code == 201
        patched = client.patch("/connectors/a/config", json={"x": "1"})
    assert patched.json is not None
    assert patched.json["config"] == {**SHOWN, "x": "1"}
    assert leader.config.connector_configs["a"] == {**STORED, "x": "1"}


def test_a_patch_without_a_body_is_refused_after_an_unknown_connector() -> None:
    worker = FakeWorker()
    client = client_of(worker)
    assert client.patch("/connectors/a/config", data="null", content_type="application/json").status_code == 404
    client.post("/connectors", json={"name": "a", "config": SINK})
    assert client.patch("/connectors/a/config", data="null", content_type="application/json").status_code == 500
