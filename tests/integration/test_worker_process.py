"""The worker as a process: how it starts, what it refuses to start with, and what it leaves behind."""

from __future__ import annotations

import json
import resource
import socket
import time

import pytest

from heeler.cli.client.rest_client import RestError
from heeler.cli.support.worker_process import WorkerProcess
from heeler.embedded_kafka.ports import free_port
from spark_tasks.connectors.verify import read_summary
from tests.rigs import probes
from tests.rigs.serving import make_certificates
from tests.rigs.support import wait_until
from tests.rigs.workers import JSON, READY_S, SPARK_MS, Rig, leftovers, processes_of, wait_gone, worker_settings

pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]

RUNNING, PAUSED, UNASSIGNED = "RUNNING", "PAUSED", "UNASSIGNED"
REFUSED_S = 40.0  # far below what clients wait for by themselves; mostly the start of Python on a busy machine


@pytest.fixture
def own_worker(kafka, tmp_path, topic_name, temporary):
    """A worker of this test's own, not started, whose temporary files are in a folder of their own."""
    # Long enough that only leaving explains a group without members.
    settings = {**worker_settings(kafka.servers, topic_name), "session.timeout.ms": "60000",
                "consumer.session.timeout.ms": "60000", "heeler.spark.start.delay.ms": "0"}
    worker = WorkerProcess(tmp_path, settings)
    yield Rig(worker, kafka, tmp_path)
    worker.kill()


def last_statuses(rig, topic):
    """The newest value of each status in the topic."""
    return {m.key().decode(): json.loads(m.value()) for m in rig.kafka.messages(topic) if m.value() is not None}


def test_a_worker_stopped_during_work_exits_cleanly_and_resumes_without_duplicates(own_worker, topic_name):
    """SIGTERM, then Ctrl-C: the exit code is 0, all records are written and no process remains; the next worker
    continues.
    """
    rig, name = own_worker, topic_name
    rig.process.properties["task.shutdown.graceful.timeout.ms"] = "10000"  # a batch that is given up is repeated
    own = {"value.converter": JSON, "value.converter.schemas.enable": "false"}
    sums = rig.folder / "sums"
    for turn, signal in enumerate(("TERM", "INT")):
        rig.process.start()
        rig.process.wait_ready(READY_S)
        if turn == 0:
            rig.create("in", {"connector.class": "datagen", "topic": name, "rate": "20000", **own})
            other = {"connector.class": "datagen", "topic": f"{name}-other", "records": "1", **own}
            rig.create("paused", other, [RUNNING, RUNNING])
            rig.call("PUT", "/connectors/paused/pause")
            rig.create("out", {"connector.class": "verify", "topics": name, "path": str(sums), **own})
        rig.wait_states("paused", [PAUSED, PAUSED])
        seen = read_summary(sums).to_json()["records"]
        wait_until(lambda: read_summary(sums).to_json()["records"] > seen, 170, "records")  # noqa: B023
        family = processes_of(rig.process)
        # The shell, the worker, Python workers, the first time also Spark.
        assert len(family) >= 4 - turn, [p.cmdline() for p in family]
        rig.process.signal(signal)
        assert rig.process.wait(30) == 0, rig.process.tail()
        assert rig.kafka.group_state(name) in ("EMPTY", "DEAD")  # Kafka forgets groups without members and offsets
        assert rig.kafka.group_state("connect-out") == "EMPTY"
        wait_gone(family)
        statuses = last_statuses(rig, rig.process.properties["status.storage.topic"])
        assert {key: s["state"] for key, s in statuses.items() if not key.startswith("status-topic")} == {
            f"status-{what}": UNASSIGNED for what in (
                "connector-in", "task-in-0", "connector-out", "task-out-0", "connector-paused", "task-paused-0")}
        assert leftovers(rig.folder / "temporary") == []
        rig.process.kill()
        rig.process.properties["heeler.spark.start.delay.ms"] = SPARK_MS  # it has ended once, and is not needed
        # A request of former times, which the next worker does not act on (KIP-745).
        former = '{"include-tasks": true, "only-failed": false}'
        rig.kafka.send(rig.process.properties["config.storage.topic"], [former], ["restart-connector-in"])
    found = read_summary(sums).to_json()
    assert (found["duplicates"], found["missing"], found["disorder"]) == (0, 0, 0)
    assert rig.kafka.end(name) >= found["records"]
    said = [m.value() for m in rig.kafka.messages(rig.process.properties["status.storage.topic"])]
    assert not [value for value in said if value and b"RESTARTING" in value]


def test_a_worker_whose_plugins_hang_stops_cleanly(own_worker, topic_name):
    """They are abandoned after task.shutdown.graceful.timeout.ms (2 s here).

    An exit code of 0 shows that: a worker that has not stopped cleanly some seconds after that time exits with 1.
    """
    rig, name = own_worker, topic_name
    rig.process.start()
    rig.process.wait_ready(READY_S)
    rig.kafka.create(name)
    rig.kafka.send(name, ["for the sink"])
    sign = {}
    for at in ("start", "tasks", "task-start", "plan", "read", "write", "stop", "task-stop"):
        release = rig.folder / at
        sign[at] = release.with_name(f"{at}.hangs")
        kind = {"connector.class": "HangingSink", "topics": name} if at == "write" else {
            "connector.class": "HangingSource", "topic": f"{name}-{at}"}
        rig.create(at, {"at": at, "release": str(release), **kind})
    for at in ("stop", "task-stop"):
        rig.wait_states(at, [RUNNING, RUNNING], 170)
        del sign[at]
    wait_until(lambda: all(file.exists() for file in sign.values()), 170, f"the plugins to hang: {sign}")
    family = processes_of(rig.process)
    rig.process.signal("TERM")
    assert rig.process.wait(30) == 0, rig.process.tail()
    assert rig.kafka.group_state(name) in ("EMPTY", "DEAD")
    assert rig.kafka.group_state("connect-write") == "EMPTY"
    wait_gone(family)
    statuses = last_statuses(rig, rig.process.properties["status.storage.topic"])
    states = {key: s["state"] for key, s in statuses.items() if not key.startswith("status-topic")}
    assert set(states.values()) == {UNASSIGNED}
    assert set(states) >= {f"status-connector-{at}" for at in ("tasks", "plan", "read", "write", "stop", "task-stop")}
    assert leftovers(rig.folder / "temporary") == []


def test_executor_processes_may_open_as_many_files_as_the_worker(own_worker):
    """The parent of the first ones is forked at once, and has the limits that the worker has then."""
    before = soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft // 2, hard))
    try:
        own_worker.process.start()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    own_worker.process.wait_ready(READY_S)
    found = {p.rlimit(resource.RLIMIT_NOFILE) for p in processes_of(own_worker.process)
             if (line := p.cmdline()) and line[0] != "/bin/sh"}  # a zombie has none
    assert found == {(min(65_536, hard), hard)}


def test_a_suspended_worker_stops_when_it_is_continued(own_worker):
    """Service managers send a suspended process SIGTERM and then SIGCONT."""
    own_worker.process.properties["heeler.spark.start.delay.ms"] = SPARK_MS
    own_worker.process.start()
    own_worker.process.wait_ready(READY_S)
    for name in ("STOP", "TERM", "CONT"):
        own_worker.process.signal(name)
    assert own_worker.process.wait(30) == 0, own_worker.process.tail()


def test_a_worker_waiting_for_kafka_reports_it_and_can_be_stopped(tmp_path):
    """Kafka accepts the connection and does not respond: REST reports that, and the worker can be stopped."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        servers = f"127.0.0.1:{silent.getsockname()[1]}"
        worker = WorkerProcess(tmp_path, worker_settings(servers, "starting"))
        worker.start()
        try:
            def health():
                try:
                    worker.rest.call("GET", "/health")
                except RestError as error:
                    return error
                except OSError:
                    return None
                raise AssertionError("healthy")

            error = wait_until(health, 30, "REST")
            assert error.status == 503
            assert "Worker is still starting up." in str(error)
            assert not worker.rest.ready()
            assert not probes.succeeds("startupProbe", worker.port)
            assert probes.succeeds("livenessProbe", worker.port)
            for method, path in (("GET", "/"), ("GET", "/connectors"), ("PUT", "/connectors/x/config")):
                with pytest.raises(RestError) as refused:
                    worker.rest.call(method, path, {} if method == "PUT" else None)
                assert refused.value.status == 404  # as with Kafka Connect, nothing is served yet
            worker.signal("TERM")
            assert worker.wait(15) == 0, worker.tail()
            assert not probes.succeeds("livenessProbe", worker.port)
        finally:
            worker.kill()


def test_invalid_settings_end_the_start_with_one_clear_message(kafka, tmp_path, topic_name):
    """Each ends at once with one clear message and no stack trace: "bad value" for all that is refused when the file is
    read, whose messages are in the tests of WorkerConfig.
    """
    two = kafka.create(f"{topic_name}-two", 2, cleanup_policy="compact")
    good = worker_settings(kafka.servers, topic_name)
    nobody = f"127.0.0.1:{free_port()}"
    cases = {
        "two partitions": ({"config.storage.topic": two}, 2, "is required to have a single partition"),
        "replication": ({"offset.storage.replication.factor": "3", "offset.storage.topic": f"{topic_name}-three",
                         "default.api.timeout.ms": "1000"}, 2, "set 'offset.storage.replication.factor' (now 3)"),
        "no broker": ({"bootstrap.servers": nobody, "default.api.timeout.ms": "3000"}, 1,
                      f"Failed to connect to and describe Kafka cluster at {nobody}"),
        "bad value": ({"session.timeout.ms": "soon"}, 2, "Invalid value soon for configuration session.timeout.ms"),
        "listener": ({"listeners": f"https://127.0.0.1:{free_port()}", "listeners.https.ssl.provider": "BCFIPS",
                      "listeners.https.ssl.keystore.location": str(make_certificates(tmp_path / "tls").pem)}, 2,
                     "configuration ssl.provider: heeler cannot"),
    }
    workers = {}
    try:
        for case, (changed, _, _) in cases.items():
            workers[case] = WorkerProcess(tmp_path, {**good, **changed}, case.replace(" ", "-")).start()
        begun = time.monotonic()
        for case, (_, code, text) in cases.items():
            assert workers[case].wait(max(1, begun + REFUSED_S - time.monotonic())) == code, workers[case].tail()
            said = workers[case].log.read_text(errors="replace")
            assert text in said, said
            assert "Traceback" not in said, said
    finally:
        for worker in workers.values():
            worker.kill()


DEADLY = """
import pykka
from heeler import ConfigProvider

class Deadly(ConfigProvider):
    def configure(self, params):
        register = pykka.ActorRegistry.register
        def registered(ref):
            register(ref)
            if ref.actor_class.__name__ == params["actor"]:
                ref.stop(block=False)
        pykka.ActorRegistry.register = registered

    def get(self, path, keys=None):
        raise KeyError(path)
"""


@pytest.mark.parametrize("actor", [
    pytest.param("ConfigStoreActor", marks=pytest.mark.nightly),
    pytest.param("OffsetStoreActor", marks=pytest.mark.nightly),
    "HerderActor",
])
def test_an_actor_that_dies_during_the_start_exits_the_worker_with_code_1(kafka, tmp_path, topic_name, actor):
    """A supervisor starts such a worker again. A plugin has it happen here: no actor gets to its first message."""
    (tmp_path / "deadly.py").write_text(DEADLY)
    settings = worker_settings(kafka.servers, topic_name, plugin_path=str(tmp_path))
    settings |= {"config.providers": "deadly", "config.providers.deadly.class": "Deadly",
                 "config.providers.deadly.param.actor": actor}
    worker = WorkerProcess(tmp_path, settings).start()
    try:
        assert worker.wait(REFUSED_S) == 1, worker.tail()
        assert " died; stopping the worker" in worker.log.read_text(errors="replace")
    finally:
        worker.kill()


def test_a_port_in_use_is_reported(kafka, tmp_path, topic_name):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        listener = f"http://127.0.0.1:{taken.getsockname()[1]}"
        worker = WorkerProcess(tmp_path, {**worker_settings(kafka.servers, topic_name), "listeners": listener})
        worker.start()
        try:
            assert worker.wait(REFUSED_S) in (1, 2), worker.tail()
            assert listener.rpartition(":")[2] in worker.tail()
            assert "Traceback" not in worker.log.read_text(errors="replace")
        finally:
            worker.kill()
