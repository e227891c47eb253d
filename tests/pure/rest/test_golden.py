"""The REST API compared with Java Kafka Connect 4.3.1's responses to the same requests (tests/golden/rest)."""

from __future__ import annotations

import json
from typing import Any

import pytest
from werkzeug.test import Client

from spark_tasks.plugins import PluginInfo
from tests.golden.rest.compare import check, recorded
from tests.golden.rest.record import headers, payload
from tests.golden.rest.scenarios import SCENARIOS
from tests.golden.rest.steps import Step
from tests.rigs.fake_herder import KEY, FakeWorker
from tests.rigs.fake_plugins import FILE, validation_key
from tests.rigs.rest_apps import client_of


@pytest.fixture
def worker() -> FakeWorker:
    """A worker whose plugins say what Java's said."""
    answers = {answer["name"]: answer["answer"] for answer in recorded("plugins")}
    worker = FakeWorker()
    listed = answers["all plugins"]
    worker.installed = tuple(PluginInfo(p["class"], p["type"], p.get("version"), "classpath") for p in listed)
    worker.key_definitions = {
        FILE + "FileStreamSourceConnector": answers["config of a source"],
        FILE + "FileStreamSinkConnector": answers["config by alias"],
        "org.apache.kafka.connect.json.JsonConverter": answers["config of a converter"],
    }
    steps = {step.name: step for step in SCENARIOS["plugins"]}
    worker.validations = {
        validation_key(steps[name].body): answer for name, answer in answers.items()
        if name.startswith("validate") and "error_count" in answer}
    return worker


def answer_of(client: Client, step: Step) -> dict[str, Any]:
    body = payload(step)
    sent = headers(step, body, KEY.key)
    response = client.open(step.path, method=step.method, data=body, headers=sent, base_url="http://worker:8083")
    text = response.get_data(as_text=True)
    return {"status": response.status_code, "headers": dict(response.headers), "answer": json.loads(text or "null")}


@pytest.mark.parametrize("scenario", sorted(SCENARIOS))
def test_responses_equal_javas(scenario: str, worker: FakeWorker) -> None:
    client = client_of(worker)
    steps, answers = SCENARIOS[scenario], recorded(scenario)
    assert [step.name for step in steps] == [answer["name"] for answer in answers], "record again: scenarios changed"
    failures = []
    for step, expected in zip(steps, answers, strict=True):
        try:
            check(step, expected, answer_of(client, step))
        except AssertionError as error:
            failures.append(f"{step.name}: {step.method} {step.path}: {str(error)[:700]}")
    assert not failures, "\n".join(failures)
