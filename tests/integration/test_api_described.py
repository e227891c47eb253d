"""Every request sent over a socket gets a response that /openapi.json describes, and none reveals a defect.

HEELER_API_EXAMPLES: how many examples of each operation instead, with a seed of the day (`make api-fuzz`).
"""

from __future__ import annotations

import logging
import os
import re
import time

import pytest

from tests.rigs.api_tester import CHECKS, STATEFUL_CHECKS, api_failures
from tests.rigs.fake_herder import FakeWorker
from tests.rigs.fake_plugins import FILE
from tests.rigs.serving import ports_of, serving

MANY = int(os.environ.get("HEELER_API_EXAMPLES", "0"))
pytestmark = [pytest.mark.integration, pytest.mark.timeout(max(1000, 15 * MANY))]
SEED = int(time.time() // 86_400) if MANY else None
# However many scenarios it may try, Hypothesis gives up after some twenty: most of its steps find no link to follow.
SEEDS = [SEED * 1000 + n for n in range(-(-MANY // 30))] if SEED else [None]
SOURCE = {"connector.class": FILE + "FileStreamSourceConnector", "topic": "t"}


def defects(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Requests that failed with 500 because of a defect."""
    mine = [record for record in caplog.records if record.name.startswith("rest.")]  # others may have threads here
    return [record.getMessage() for record in mine if record.levelno >= logging.ERROR]


def test_every_response_is_described(tmp_path, caplog):
    with serving(FakeWorker()) as server:
        assert api_failures(ports_of(server)[0], tmp_path, SOURCE, examples=MANY or 2, seed=SEED,
                            more=("--phases", "coverage,fuzzing")) == ""
    assert defects(caplog) == []


@pytest.mark.nightly  # the real worker below has stateful scenarios, too
def test_links_refer_to_described_operations(tmp_path, caplog):
    worker = FakeWorker()
    with serving(worker) as server:
        for seed in SEEDS:
            found = api_failures(ports_of(server)[0], tmp_path, SOURCE, examples=MANY or 40, seed=seed,
                                 checks=(*CHECKS, *STATEFUL_CHECKS), more=("--phases", "stateful"))
            assert not found, found
    assert defects(caplog) == []
    asked = {type(request).__name__ for request in worker.asked}
    assert {"GetConnector", "SetTargetState"} <= asked


@pytest.mark.nightly
def test_created_connectors_exist_and_deleted_ones_do_not(tmp_path, caplog):
    """There are few operations, so that scenarios reach deleted connectors again."""
    few = [f"--include-operation-id=connectors.{name}" for name in ("create", "delete", "describe", "get_config")]
    with serving(FakeWorker()) as server:
        assert api_failures(ports_of(server)[0], tmp_path, SOURCE, examples=MANY or 40, seed=SEED,
                            checks=(*CHECKS, *STATEFUL_CHECKS), more=("--phases", "stateful", *few)) == ""
    assert defects(caplog) == []


def test_a_real_workers_responses_are_as_described(rig, topic_name):
    """Loggers are left out because other tests depend on them, and trials because each needs a process."""
    rig.kafka.create(topic_name)
    config = {"connector.class": "FileStreamSource", "file": str(rig.folder / "in.txt"), "topic": topic_name}
    before, logged = set(rig.call("GET", "/connectors")), rig.process.log.stat().st_size
    port = int(rig.rest.url.rpartition(":")[2])
    try:
        found = api_failures(port, rig.folder, config, examples=MANY or 12, seed=SEED,
                             more=["--phases", "fuzzing,stateful", "--exclude-tag=loggers", "--exclude-tag=trial"])
    finally:
        rig.created.extend(set(rig.call("GET", "/connectors")) - before)
    assert not found, found
    assert rig.created, "it has created none"
    assert rig.call("GET", "/health")["status"] == "healthy"
    log = rig.process.log.read_bytes()[logged:].decode(errors="replace")
    assert re.findall(r".* ERROR .*\(rest\.errors:\d+\)", log) == [], "answers that nobody raised on purpose"
