"""A Java Kafka Connect worker and a heeler worker in one group: lines of files flow through Kafka into files, by tasks
on both; either leads; either is killed; requests go to either.
"""

from __future__ import annotations

import http.client
import json

import pytest

from heeler.cli.support.worker_process import WorkerProcess
from tests.rigs.cluster import Cluster
from tests.rigs.connector_states import states_of
from tests.rigs.java_worker import TIMES, JavaWorker
from tests.rigs.support import wait_until
from tests.rigs.workers import READY_S, SPARK_MS, Kafka

pytestmark = [pytest.mark.interop, pytest.mark.timeout(400)]

PIPELINES = ("a", "b", "c", "d")
LINES = 50


class Mixed(Cluster):
    """The cluster's requests, sent to one Java and one heeler worker."""

    def __init__(self, kafka, folder, properties):
        self.kafka, self.folder, self.group = kafka, folder, properties["group.id"]
        self.settings = {**properties, **TIMES, "errors.restart.policy": "failed"}  # Java knows no such key
        self.settings.pop("listeners")
        self.java = JavaWorker(folder, self.settings)
        self.heeler = WorkerProcess(folder, {**self.settings, "heeler.spark.start.delay.ms": SPARK_MS}, "heeler")
        self.wanted = {}
        self.lines = 0
        self.up = []

    def living(self):
        return self.up

    def start(self, worker):
        worker.start()
        if worker is self.heeler:
            worker.wait_ready(READY_S)
        self.up.append(worker)

    def end(self, worker, *, kill):
        self.up.remove(worker)
        if worker is self.java:
            worker.stop(0 if kill else 15)
        elif kill:
            worker.kill()
        else:
            assert worker.stop() == 0, worker.tail()

    def make_pipelines(self):
        for name in PIPELINES:
            topic = self.kafka.create(f"{self.group}-{name}", 2)
            (self.folder / f"{name}.in").touch()
            self.create(f"{name}-in", {"connector.class": "FileStreamSource", "topic": topic,
                                       "file": str(self.folder / f"{name}.in")}, 1)
            self.create(f"{name}-out", {"connector.class": "FileStreamSink", "topics": topic,
                                        "file": str(self.folder / f"{name}.out")}, 2)

    def flow(self):
        """More lines; at least once they come out, and those that were out stay so."""
        for name in PIPELINES:
            with (self.folder / f"{name}.in").open("a") as file:
                file.writelines(f"{name} {n}\n" for n in range(self.lines, self.lines + LINES))
        self.lines += LINES

        def out():
            for name in PIPELINES:
                file = self.folder / f"{name}.out"
                found = set(file.read_text().splitlines()) if file.exists() else set()
                missing = {f"{name} {n}" for n in range(self.lines)} - found
                assert not missing, f"{len(missing)} lines of {name} are missing, such as {sorted(missing)[:3]}"
                assert len(found) == self.lines
            return True

        wait_until(out, 45, "all lines")

    def shared(self):
        """Both run their share, and both say so."""
        parts = self.wait_settled()
        assert {address for _, address in parts.values()} == {f"127.0.0.1:{w.port}" for w in self.living()}
        return parts


def call(worker, method, path, body=None):
    connection = http.client.HTTPConnection("127.0.0.1", worker.port, timeout=60)
    try:
        connection.request(method, path, body and json.dumps(body), {"Content-Type": "application/json"})
        response = connection.getresponse()
        text = response.read()
        return response.status, json.loads(text) if text else None
    finally:
        connection.close()


def ask_both(mixed):
    """Requests to either, about what either runs."""
    parts = mixed.shared()
    for worker in (mixed.java, mixed.heeler):
        for name in ("a-in", "b-out"):
            for n in range(mixed.wanted[name]):
                assert call(worker, "POST", f"/connectors/{name}/tasks/{n}/restart") == (204, None)
            assert call(worker, "POST", f"/connectors/{name}/restart") == (204, None)
            mixed.wait_settled()
            status, answer = call(worker, "POST", f"/connectors/{name}/restart?includeTasks=true")
            assert (status, {t["state"] for t in answer["tasks"]}) == (202, {"RESTARTING"})
            assert mixed.wait_settled() == parts  # nothing moved
        # New numbers of tasks: each connector's worker has to bring them to the leader, in a signed request.
        for tasks in (1, 2):
            for name in PIPELINES:
                config = worker.rest.call("GET", f"/connectors/{name}-out/config")
                worker.rest.put_config(f"{name}-out", {**config, "tasks.max": str(tasks)})
                mixed.wanted[f"{name}-out"] = tasks
            parts = mixed.wait_settled()
        assert call(worker, "PUT", "/connectors/c-out/pause")[0] == 202
        for other in mixed.living():
            wait_until(lambda: states_of(other.rest, "c-out") == ["PAUSED"] * 3, 20, "PAUSED")  # noqa: B023
        assert call(worker, "PUT", "/connectors/c-out/resume")[0] == 202
        parts = mixed.wait_settled()


def auto_beside_java(mixed):
    """Put through heeler, whoever leads, `tasks.max=auto` is shown so by heeler; Java workers see and run a number."""
    sink = {"connector.class": "FileStreamSink", "topics": f"{mixed.group}-a", "file": str(mixed.folder / "auto"),
            "name": "auto", "tasks.auto.max": "2"}
    auto, number = ({**sink, "tasks.max": value} for value in ("auto", "2"))
    assert call(mixed.heeler, "PUT", "/connectors/auto/config", auto)[1]["config"] == auto
    shown = lambda worker: call(worker, "GET", "/connectors/auto/config")[1]  # noqa: E731
    wait_until(lambda: shown(mixed.java) == number, 45, "the number")
    assert shown(mixed.heeler) == auto

    def runs():
        return all(states_of(w.rest, "auto") in (["RUNNING"] * 2, ["RUNNING"] * 3) for w in mixed.living())

    wait_until(runs, 45, "its tasks")  # one, unless a Java worker has made them
    assert call(mixed.java, "PUT", "/connectors/auto/config", auto)[0] == 400
    assert call(mixed.java, "PUT", "/connectors/auto/config", {**number, "tasks.auto.lag": "5"})[0] == 200
    wait_until(lambda: shown(mixed.heeler) == {**auto, "tasks.auto.lag": "5"}, 45, "what Java has put")
    mixed.heeler.rest.call("DELETE", "/connectors/auto")
    mixed.wait_settled()


def heal_beside_java(mixed):
    """What heeler adds to statuses of what it restarts by itself harms no Java worker."""
    folder = mixed.folder / "missing"
    sink = {"connector.class": "FileStreamSink", "topics": f"{mixed.group}-a", "file": str(folder / "out")}
    mixed.create("bad", sink, 2)
    mine, states = f"127.0.0.1:{mixed.heeler.port}", {"FAILED", "RUNNING", "RESTARTING", "UNASSIGNED"}

    def tasks(worker):
        found = call(worker, "GET", "/connectors?expand=status")[1].get("bad", {})
        return found.get("status", {"tasks": []})["tasks"]

    def healed():
        return [t["id"] for t in tasks(mixed.heeler) if t["worker_id"] == mine and t.get("restarts", {}).get("count")]

    number, = wait_until(healed, 45, "a restart by itself")
    seen = next(task for task in tasks(mixed.java) if task["id"] == number)
    assert (seen["worker_id"], seen["state"] in states, "restarts" in seen) == (mine, True, False)
    status, answer = call(mixed.java, "POST", "/connectors/bad/restart?includeTasks=true&onlyFailed=true")
    assert (status, len(answer["tasks"])) == (202, 2), "a Java worker takes the answer of a leader that is heeler"
    folder.mkdir()
    wait_until(lambda: {t["id"]: t["state"] for t in tasks(mixed.java)}[number] == "RUNNING", 45, "it to be well")
    mixed.delete("bad")
    mixed.wait_settled()


@pytest.fixture
def mixed(broker, tmp_path, worker_properties):
    cluster = Mixed(Kafka(broker.bootstrap_servers), tmp_path, worker_properties)
    yield cluster
    cluster.java.close()
    cluster.heeler.kill()


def test_a_mixed_cluster_of_java_and_heeler_workers(mixed):
    mixed.start(mixed.java)
    mixed.make_pipelines()
    mixed.wait_settled()
    mixed.flow()

    mixed.start(mixed.heeler)  # a Java leader
    mixed.shared()
    assert mixed.leads(mixed.java)
    mixed.flow()
    ask_both(mixed)
    auto_beside_java(mixed)
    mixed.flow()

    mixed.end(mixed.heeler, kill=True)
    mixed.wait_settled()
    mixed.flow()
    mixed.start(mixed.heeler)
    mixed.shared()

    mixed.end(mixed.java, kill=True)  # now heeler leads
    mixed.wait_settled()
    mixed.flow()
    mixed.start(mixed.java)
    mixed.shared()
    assert mixed.leads(mixed.heeler)
    mixed.flow()
    ask_both(mixed)
    auto_beside_java(mixed)
    heal_beside_java(mixed)

    mixed.end(mixed.java, kill=False)
    mixed.wait_settled()
    mixed.flow()
