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


BUILT_IN = ("spark_tasks.", "io.confluent.")
BEYOND_JAVA = {
    "sink ParquetSinkConnector 0.1.0", "sink PySparkSinkConnector 0.1.0",
    "sink VerifySinkConnector 0.1.0", "source DatagenSourceConnector 0.1.0",
    "source FilesSourceConnector 0.1.0", "source PySparkSourceConnector 0.1.0",
    "transformation Sql 1.0", "converter AvroConverter 8.3.0", "converter JsonSchemaConverter 8.3.0",
    "converter ProtobufConverter 8.3.0",
}  # fmt: skip


@pytest.mark.parametrize("step", ["connector plugins", "all plugins"])
def test_plugins_are_listed_as_by_java_connect(alone, step):
    """Java's plugins with its types and versions in its order, whatever else is installed."""
    rig, _ = alone
    (javas,) = (one for one in recorded("plugins") if one["name"] == step)
    ours = rig.call("GET", javas["path"])
    classes = {(one["class"], one["type"]) for one in javas["answer"]}
    assert [one for one in ours if (one["class"], one["type"]) in classes] == javas["answer"]
    more = [one for one in ours if (one["class"], one["type"]) not in classes and one["class"].startswith(BUILT_IN)]
    assert {f"{one['type']} {one['class'].rpartition('.')[2]} {one['version']}" for one in more} == {
        kind for kind in BEYOND_JAVA if step == "all plugins" or kind.startswith("s")}
