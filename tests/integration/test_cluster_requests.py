"""Any worker of a cluster answers for all: requests are forwarded to the leader or the owner, and refused in cases that
clients know to repeat.
"""

from __future__ import annotations

import base64
import hmac
import itertools
import json
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.rigs.cluster import Cluster, http_call
from tests.rigs.connector_states import states_of
from tests.rigs.support import wait_until

pytestmark = [pytest.mark.integration, pytest.mark.timeout(240)]

CONFLICT = "Cannot complete request because of a conflicting operation (e.g. worker rebalance)"


@pytest.fixture(scope="module")
def running(kafka, tmp_path_factory):
    signing = {"inter_worker_key_ttl_ms": "3000", "inter_worker_signature_algorithm": "HmacSHA512",
               "inter_worker_verification_algorithms": "HmacSHA256,HmacSHA512"}
    with Cluster(kafka, tmp_path_factory.mktemp("requests"), "cluster-requests", rest_rebalance_wait_ms="30000",
                 **signing) as cluster:
        yield cluster


@pytest.fixture
def cluster(running):
    yield running
    for name in list(running.wanted):
        running.delete(name)
    running.wait_settled(even=False)


@pytest.fixture
def sink(cluster, topic_name):
    """A sink with three tasks, one on each worker."""
    cluster.kafka.create(topic_name, 3)
    cluster.create(topic_name, sink_config(cluster, topic_name), 3)
    cluster.wait_settled()
    return topic_name


def sink_config(cluster, name):
    return {"connector.class": "FileStreamSink", "topics": name, "file": str(cluster.folder / f"{name}.txt")}


def settled_call(cluster, worker, method, path, body=b""):
    """As http_call, once no rebalance is in the way."""
    cluster.wait_settled()
    return http_call(worker, method, path, body)


def elsewhere(cluster, part):
    """A worker on which the connector or task does not run."""
    address = cluster.wait_settled()[part][1]
    return next(worker for worker in cluster.living() if f"127.0.0.1:{worker.port}" != address)


def test_a_config_through_a_follower_reaches_all_tasks(cluster, sink):
    config = {**sink_config(cluster, sink), "tasks.max": "1"}
    status, answer = settled_call(cluster, cluster.follower(), "PUT", f"/connectors/{sink}/config", json.dumps(config))
    assert (status, answer["config"]["tasks.max"]) == (200, "1")
    cluster.wanted[sink] = 1
    cluster.wait_settled()  # the statuses of the two tasks that are no more are gone


def test_creating_pausing_resuming_and_deleting_through_a_follower(cluster, topic_name):
    cluster.kafka.create(topic_name)
    config = {**sink_config(cluster, topic_name), "name": topic_name}
    body = json.dumps({"name": topic_name, "config": config})
    status, answer = http_call(cluster.follower(), "POST", "/connectors", body)
    assert (status, answer["name"]) == (201, topic_name)
    assert http_call(cluster.follower(), "POST", "/connectors", body)[0] == 409
    cluster.wanted[topic_name] = 1
    cluster.wait_settled()
    states = {}
    for change, code, wanted in (("pause", 202, ["PAUSED"] * 2), ("resume", 202, ["RUNNING"] * 2),
                                 ("stop", 204, ["STOPPED"]), ("resume", 202, ["RUNNING"] * 2)):
        assert http_call(cluster.follower(), "PUT", f"/connectors/{topic_name}/{change}")[0] == code
        for worker in cluster.living():
            wait_until(lambda: states_of(worker.rest, topic_name) == wanted, 20, f"{change}: {states}")  # noqa: B023
    cluster.wait_settled()
    del cluster.wanted[topic_name]
    assert http_call(cluster.follower(), "DELETE", f"/connectors/{topic_name}") == (204, None)
    cluster.wait_settled()


def test_a_request_that_was_forwarded_twice_is_refused(cluster, sink):
    cluster.wait_settled()
    follower = cluster.follower()
    refused = 409, {"error_code": 409, "message": CONFLICT}
    config = json.dumps(sink_config(cluster, sink))
    for method, path, body in (("PUT", "config", config), ("DELETE", "", b""), ("PUT", "stop", b""),
                               ("POST", "restart?includeTasks=true", b"")):
        mark = "&" if "?" in path else "?"
        assert http_call(follower, method, f"/connectors/{sink}/{path}".rstrip("/") + f"{mark}forward=false", body) \
            == refused


def test_tasks_and_connectors_restart_on_the_worker_that_runs_them(cluster, sink):
    for number in range(3):
        other = elsewhere(cluster, f"{sink}-{number}")
        assert http_call(other, "POST", f"/connectors/{sink}/tasks/{number}/restart") == (204, None)
    assert http_call(elsewhere(cluster, sink), "POST", f"/connectors/{sink}/restart") == (204, None)
    before = cluster.wait_settled()
    for turn, worker in enumerate(cluster.living(), 1):
        status, answer = settled_call(cluster, worker, "POST", f"/connectors/{sink}/restart?includeTasks=true")
        assert status == 202
        shown = [answer["connector"], *answer["tasks"]]
        assert [part["state"] for part in shown] == ["RESTARTING"] * 4
        wait_until(lambda: restarts(cluster, sink) == turn, 20, "the restart")  # noqa: B023
        assert cluster.wait_settled() == before  # nothing moved
    status, answer = settled_call(cluster, cluster.follower(), "POST", f"/connectors/{sink}/restart?onlyFailed=true")
    assert (status, answer["connector"]["state"]) == (202, "RUNNING")
    assert restarts(cluster, sink) == 3


def restarts(cluster, sink):
    """How often the status topic says that the first task is restarting."""
    said = [value["state"] for key, value in cluster.statuses() if key == f"status-task-{sink}-0" and value]
    return said.count("RESTARTING")


def test_requests_during_rebalances_wait(cluster, topic_name):
    """Users of all workers create, restart and delete connectors at the same time without repeating requests; each
    connector makes the group rebalance several times.
    """
    config = {"connector.class": "FileStreamSource", "file": str(cluster.folder / "missing"), "topic": topic_name}

    def use(worker):
        codes = []
        for n in range(4):
            name = f"{topic_name}-{worker.port}-{n}"
            made = http_call(worker, "POST", "/connectors", json.dumps({"name": name, "config": config}))[0]
            restarted = http_call(worker, "POST", f"/connectors/{name}/restart")[0]
            deleted = http_call(worker, "DELETE", f"/connectors/{name}")[0]
            codes.append((made, restarted, deleted))
        return codes

    cluster.wait_settled()
    with ThreadPoolExecutor(len(cluster.living())) as users:
        answers = [codes for found in users.map(use, cluster.living()) for codes in found]
    assert len(answers) == 12
    assert {(made, deleted) for made, _, deleted in answers} == {(201, 204)}, answers
    # As in Java: 404 of a worker that has not read of it yet, 500 of one that loses it while it restarts.
    assert {restarted for _, restarted, _ in answers} <= {204, 404, 500}, answers
    cluster.wait_settled()


def test_creating_and_deleting_twenty_connectors_delays_no_record_of_another_one(cluster, sink):
    """No request is refused, and rebalances delay no record: they do not stop work that stays on its worker."""
    config = {"connector.class": "FileStreamSource", "file": str(cluster.folder / "missing"), "topic": f"{sink}-none"}
    lines, over, waited = cluster.folder / f"{sink}.txt", threading.Event(), []

    def send(number):
        cluster.kafka.send(sink, [f"{number} {time.monotonic()}"], partition=number % 3)

    def stream():
        """A record at a time, whose wait is measured before the next one goes: how long the worst was, and how many."""
        for number in itertools.count():
            if over.is_set():
                return
            sent = time.monotonic()
            send(number)
            wait_until(lambda: f"\n{number} " in f"\n{lines.read_text()}", 30, "the record", longest_pause=0.02)  # noqa: B023
            waited.append(time.monotonic() - sent)

    def use(numbers, method):
        worker = cluster.living()[numbers[0] % 3]
        made = [json.dumps({"name": f"{sink}-{n}", "config": config}) for n in numbers]
        if method == "POST":
            return [http_call(worker, "POST", "/connectors", body)[0] for body in made]
        return [http_call(worker, "DELETE", f"/connectors/{sink}-{n}")[0] for n in numbers]

    cluster.wait_settled()
    send(-3)
    wait_until(lambda: "-3 " in lines.read_text(), 30, "the stream")
    with ThreadPoolExecutor(5) as users:
        streaming = users.submit(stream)
        shares = [range(n, 20, 4) for n in range(4)]
        for method, code in (("POST", 201), ("DELETE", 204)):
            assert [c for codes in users.map(use, shares, [method] * 4) for c in codes] == [code] * 20
        over.set()
        streaming.result(60)
    assert len(waited) > 10
    assert max(waited) < 5, "a second on a machine with nothing else to do"
    cluster.wait_settled()


def test_unknown_connectors_are_404_everywhere(cluster):
    cluster.wait_settled()
    for worker in cluster.living():
        for method, path in (("GET", ""), ("DELETE", ""), ("PUT", "/pause"), ("PUT", "/stop"), ("POST", "/restart"),
                             ("POST", "/restart?includeTasks=true"), ("POST", "/tasks/0/restart"), ("GET", "/status")):
            assert http_call(worker, method, f"/connectors/nobody{path}")[0] == 404, (method, path)


def session_keys(cluster):
    """All session keys so far."""
    keys = [m for m in cluster.kafka.messages(cluster.settings["config.storage.topic"]) if m.key() == b"session-key"]
    return [base64.b64decode(json.loads(key.value())["key"]) for key in keys]


def signed(key, data, algorithm="HmacSHA256"):
    """The headers of a signed request."""
    signature = hmac.new(key, data, algorithm.removeprefix("Hmac")).digest()
    return {"X-Connect-Authorization": base64.b64encode(signature).decode(),
            "X-Connect-Request-Signature-Algorithm": algorithm}


def test_internal_requests_are_signed(cluster, sink):
    body = json.dumps([{**sink_config(cluster, sink), "task.class": "x"}] * 3).encode()
    path = f"/connectors/{sink}/tasks"

    def post(worker, path, algorithm="HmacSHA256"):
        """Not refused only because the key has just been renewed."""
        answer = http_call(worker, "POST", path, body, signed(session_keys(cluster)[-1], body, algorithm))
        assert answer[0] != 403
        return [answer]

    cluster.wait_settled()
    for worker in cluster.living():
        assert http_call(worker, "POST", path, body)[0] == 400
        assert http_call(worker, "POST", path, body, signed(b"other", body))[0] == 403
        status, answer = http_call(worker, "POST", path, body, signed(b"other", body, "HmacMD5"))
        assert status == 400
        assert "This worker does not support the 'HmacMD5' key signing algorithm" in answer["message"]
        assert "[HmacSHA256, HmacSHA512]" in answer["message"]
    assert wait_until(lambda: post(cluster.follower(), f"{path}?forward=false"))[0][0] == 409
    for algorithm in ("HmacSHA256", "HmacSHA512"):
        assert wait_until(lambda: post(cluster.leader(), path, algorithm)) == [(204, None)]  # noqa: B023
    cluster.wait_settled()


def test_the_session_key_is_renewed_and_requests_are_still_accepted(cluster, tmp_path, topic_name):
    names = [f"{topic_name}-{n}" for n in range(3)]  # one on each worker: two of them send task configs to the leader
    for tasks in (1, 2):
        known = len(session_keys(cluster))
        for name in names:
            cluster.create(name, {"connector.class": "AloneSource", "topic": "none", "folder": str(tmp_path)}, tasks)
        parts = cluster.wait_settled()
        assert len({parts[name][1] for name in names}) == 3
        wait_until(lambda: len(session_keys(cluster)) > known, 20, "a new session key")  # noqa: B023
    path = f"/connectors/{names[0]}/tasks"
    assert http_call(cluster.leader(), "POST", path, b"[]", signed(session_keys(cluster)[0], b"[]"))[0] == 403
