"""The responses of a real worker compared with Java Kafka Connect 4.3.1's to the same requests (tests/golden/rest).

tests/rest does the same with a herder that imitates Java's; here nothing imitates anything.
"""

from __future__ import annotations

import json

import pytest

from tests.golden.rest.compare import check, recorded
from tests.golden.rest.record import perform, session_key
from tests.golden.rest.scenarios import SCENARIOS
from tests.rigs.support import wait_until
from tests.rigs.workers import PATIENT, running_worker

pytestmark = pytest.mark.integration

OWN = {
    "root": {"server info": "our commit, this cluster's id", "text body to the root": "the same"},
    "loggers": {"loggers": "ours"},
    "create": {
        **dict.fromkeys(("null value", "null value by put", "null value, seen", "delete a"),
                        "Java forgets the error of a null if the key is the plugin's own"),
    },
}
"""Scenario to step to why its answer is another one."""


@pytest.fixture(scope="module")
def alone(kafka, tmp_path_factory):
    """A worker without connectors, and its session key."""
    with running_worker(kafka, tmp_path_factory.mktemp("golden"), "golden-worker", **PATIENT) as rig:

        def key():
            try:
                return session_key(kafka.servers, rig.process.properties["config.storage.topic"])
            except IndexError:
                return None  # the group's first rebalance is not over yet

        yield rig, wait_until(key, 30, "the session key")


@pytest.mark.parametrize("scenario", sorted(set(SCENARIOS) - {"plugins"}))  # other plugins are installed here
def test_responses_equal_javas(alone, scenario):
    rig, key = alone
    netloc = f"127.0.0.1:{rig.process.port}"
    failures = []
    for step, expected in zip(SCENARIOS[scenario], recorded(scenario), strict=True):
        actual = json.loads(json.dumps(perform(netloc, step, key)).replace(netloc, "worker:8083"))
        try:
            check(step, expected, actual)
        except AssertionError as error:
            if step.name not in OWN.get(scenario, {}):
                failures.append(f"{step.name}: {step.method} {step.path}: {str(error)[:700]}")
        else:
            assert step.name not in OWN.get(scenario, {}), f"{step.name} is answered as by Java"
    assert not failures, "\n".join(failures)
