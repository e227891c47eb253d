"""POST /connectors/try: accepted and refused requests."""

from __future__ import annotations

import pytest
from werkzeug.test import Client

from tests.rigs.fake_herder import FakeWorker
from tests.rigs.rest_apps import client_of

CONFIG = {"connector.class": "X", "n": 1}


@pytest.fixture
def client() -> Client:
    worker = FakeWorker()
    return client_of(worker)


def test_a_trial_takes_a_configuration_records_and_a_limit(client: Client) -> None:
    body = {"config": CONFIG, "records": [{"value": 1.5}], "limit": 7}
    answer = client.post("/connectors/try", json=body)
    assert answer.status_code == 200
    config, records, limit = answer.json["stages"][0]["records"]
    assert (config, records, limit) == ({"connector.class": "X", "n": "1"}, [{"value": 1.5}], 7)
    assert client.post("/connectors/try", json={"config": CONFIG}).json["stages"][0]["records"][1:] == [None, 5]


@pytest.mark.parametrize(("body", "status", "words"), [
    (None, 400, "has no config"), ({}, 400, "has no config"), ({"config": {"a": None}}, 400, "Null value"),
    ({"config": CONFIG, "limit": 0}, 400, "from 1 to"), ({"config": CONFIG, "limit": 1001}, 400, "from 1 to"),
    ({"config": CONFIG, "limit": "5"}, 400, "from 1 to"), ({"config": CONFIG, "limit": True}, 400, "from 1 to"),
    ({"config": CONFIG, "records": {}}, 400, "must be a list"), ({"conf": {}}, 400, "Unrecognized field"),
    ([], 400, "Cannot deserialize"),
])
def test_invalid_trials_are_refused(client: Client, body: object, status: int, words: str) -> None:
    answer = client.post("/connectors/try", json=body)
    assert (answer.status_code, words in answer.json["message"]) == (status, True)


def test_a_connector_may_be_called_try(client: Client) -> None:
    assert client.get("/connectors/try").status_code == 404
    assert client.get("/connectors/try/status").status_code == 404
