"""A task's lease of the host, which moves with it."""

from __future__ import annotations

import json
import threading
from types import SimpleNamespace

import pytest

from heeler.java_host.lease import HostLease
from spark_tasks.host_frames import HEAD, HostGoneError, message
from spark_tasks.metrics.task import TaskMetrics
from tests.rigs.host_processes import RETIRE, hosts
from tests.rigs.support import wait_until


def received(process):
    """What the newest connection says; answered."""
    end = process.ends[-1]
    _, number, size = HEAD.unpack(end.recv(HEAD.size))
    reported = json.loads(end.recv(size))
    end.sendall(message(number, {"op": "answer"}))
    return reported


@pytest.fixture
def rig(made):
    woken = threading.Event()
    metrics = TaskMetrics()
    lease = HostLease(hosts(), SimpleNamespace(id="c-0", connector_name="c", wake=woken.set, metrics=metrics))

    def folder(count):
        """The lease's, while the `count`th host answers the question of it."""
        found = []
        thread = threading.Thread(target=lambda: found.append(lease.folder()))
        thread.start()
        while len(made) < count or not made[count - 1].ends:
            thread.join(0.005)
        reported = received(made[count - 1])
        thread.join(10)
        assert reported == {"op": "lease", "lease": lease.token}
        return found[0]

    yield SimpleNamespace(lease=lease, folder=folder, woken=woken, made=made, metrics=metrics)
    lease.close()


@pytest.mark.parametrize("retires", [True, False])
def test_a_lease_moves_only_when_its_host_ends_or_retires(rig, retires):
    assert rig.folder(1) == "folder 1"
    assert rig.lease.folder() == "folder 1"
    if retires:
        rig.made[0].ends[0].sendall(message(0, RETIRE))
    else:
        rig.made[0].close()
    assert rig.woken.wait(10)
    assert rig.folder(2) == "folder 2"
    assert [rig.lease.folder() for _ in range(3)] == ["folder 2"] * 3, "what it has left says nothing any more"


def test_metrics_of_chains_are_added_across_hosts(rig):
    """Counters start at zero in the next host."""
    reported = {"op": "metrics", "chain": 1, "values": [{"name": "read-total", "help": "", "tags": {}, "value": 3.0}]}

    def counted():
        return [value for value, _ in rig.metrics.plugins.figures().values.values()]

    rig.folder(1)
    rig.made[0].ends[0].sendall(message(0, reported))
    wait_until(lambda: counted() == [3.0])
    rig.made[0].close()
    assert rig.woken.wait(10)
    rig.folder(2)
    rig.made[1].ends[0].sendall(message(0, reported))
    wait_until(lambda: counted() == [6.0])


def test_a_host_that_ends_before_it_responds_raises_an_error(rig):
    errors = []

    def ask():
        try:
            rig.lease.folder()
        except HostGoneError as error:
            errors.append(error)

    thread = threading.Thread(target=ask)
    thread.start()
    while not (rig.made and rig.made[0].ends):
        thread.join(0.005)
    rig.made[0].close()
    thread.join(10)
    assert errors
    assert rig.folder(2) == "folder 2"
