"""What clients see of offsets."""

from __future__ import annotations

import json

from storage.ids import ConnectorName, TargetState
from tests.rigs.fake_herder import FakeWorker
from tests.rigs.fake_plugins import FILE
from tests.rigs.rest_apps import client_of

SOURCE = FILE + "FileStreamSourceConnector"


def test_numbers_beyond_a_double_are_shown_as_by_jackson() -> None:
    worker = FakeWorker()
    worker.put(ConnectorName("a"), {"name": "a", "connector.class": SOURCE}, TargetState.STARTED, 1)
    worker.offsets[ConnectorName("a")] = {"": ({"p": float("-inf")}, {"pos": float("inf"), "n": [1e300, 10**30]})}
    answer = client_of(worker).get("/connectors/a/offsets")
    assert json.loads(answer.data) == {
        "offsets": [{"partition": {"p": "-Infinity"}, "offset": {"pos": "Infinity", "n": [1e300, 10**30]}}]}
