"""Our REST front end against what Java Kafka Connect 4.3.1 answered to the same requests (tests/golden/rest)."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from werkzeug.test import Client, TestResponse

from rest.app import create_app
from rest.settings import RestSettings
from spark_tasks.plugins import PluginInfo
from tests.golden.rest.record import contains, headers, payload
from tests.golden.rest.scenarios import SCENARIOS, Step
from tests.rest.fake_herder import KEY, FakeWorker
from tests.rest.fake_plugins import FILE, validation_key

GOLDEN = Path(__file__).parent.parent / "golden" / "rest"

# Texts of Java's parser that we do not imitate to the last word: what comes before these marks is the same.
CUT = re.compile(r"\n at \[Source|, not marked as ignorable|, available connectors are:")
OWN_WORDS = re.compile(  # a null pointer, or a syntax error: the status is the same
    r"Cannot invoke|Unexpected|Unrecognized (token|character)|Non-standard|Invalid numeric|Illegal unquoted|"
    r"Trailing token")


def recorded(scenario: str) -> list[dict[str, Any]]:
    return json.loads((GOLDEN / f"{scenario}.json").read_text())


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


def request(client: Client, step: Step) -> TestResponse:
    body = payload(step)
    sent = headers(step, body, KEY.key)
    return client.open(step.path, method=step.method, data=body, headers=sent, base_url="http://worker:8083")


def check(step: Step, expected: dict[str, Any], response: TestResponse) -> None:
    text = response.get_data(as_text=True)
    assert response.status_code == expected["status"], text
    actual = json.loads(text) if text else None
    answer = expected["answer"]
    if expected["status"] >= 400 and step.method != "HEAD":
        check_error(expected["status"], answer, actual)
    else:
        assert without_times(actual) == without_times(answer)
    if step.until is not None:
        assert contains(step.until, actual)
    check_headers(expected["headers"], response)


def check_error(status: int, answer: Any, actual: Any) -> None:
    assert actual.keys() == {"error_code", "message"}
    assert actual["error_code"] == status
    assert actual["message"]
    if isinstance(answer, dict) and not OWN_WORDS.match(answer["message"]):
        assert CUT.split(actual["message"])[0] == CUT.split(answer["message"])[0]


def check_headers(expected: dict[str, str], response: TestResponse) -> None:
    if "json" in expected.get("Content-Type", ""):
        assert response.mimetype == "application/json"
    assert response.headers.get("Location") == expected.get("Location")
    if "Allow" in expected:
        assert set(re.split(r",\s*", response.headers["Allow"])) == set(expected["Allow"].split(","))


def without_times(answer: Any) -> Any:
    if isinstance(answer, dict):
        return {key: "time" if key == "last_modified" and value else without_times(value)
                for key, value in answer.items()}
    return answer


@pytest.mark.parametrize("scenario", sorted(SCENARIOS))
def test_answers_as_java_connect(scenario: str, worker: FakeWorker) -> None:
    client = Client(create_app(worker.ask, worker, RestSettings()))
    steps, answers = SCENARIOS[scenario], recorded(scenario)
    assert [step.name for step in steps] == [answer["name"] for answer in answers], "record again: scenarios changed"
    failures = []
    for step, expected in zip(steps, answers, strict=True):
        try:
            check(step, expected, request(client, step))
        except AssertionError as error:
            failures.append(f"{step.name}: {step.method} {step.path}: {str(error)[:700]}")
    assert not failures, "\n".join(failures)
