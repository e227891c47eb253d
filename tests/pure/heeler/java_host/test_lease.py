"""A task's lease of the host, which moves with it."""

from __future__ import annotations

import json
import threading
from types import SimpleNamespace

import pytest

from heeler.java_host.lease import HostLease
from spark_tasks.host_frames import HEAD, HostGoneError, message
from tests.pure.heeler.java_host.test_host import RETIRE, hosts, made  # noqa: F401 - a fixture


def heard(process):
    """What the newest connection says; answered."""
    end = process.ends[-1]
    _, number, size = HEAD.unpack(end.recv(HEAD.size))
    told = json.loads(end.recv(size))
    end.sendall(message(number, {"op": "answer"}))
    return told


@pytest.fixture
def rig(made):  # noqa: F811
    woken = threading.Event()
    lease = HostLease(hosts(), SimpleNamespace(id="c-0", connector_name="c", wake=woken.set))

    def folder(count):
        """The lease's, while the `count`th host answers the question of it."""
        found = []
        thread = threading.Thread(target=lambda: found.append(lease.folder()))
        thread.start()
        while len(made) < count or not made[count - 1].ends:
            thread.join(0.005)
        told = heard(made[count - 1])
        thread.join(10)
        assert told == {"op": "lease", "lease": lease.token}
        return found[0]

    yield SimpleNamespace(lease=lease, folder=folder, woken=woken, made=made)
    lease.close()


@pytest.mark.parametrize("retires", [True, False])
def test_it_moves_when_the_host_does_and_not_before(rig, retires):
    assert rig.folder(1) == "folder 1"
    assert rig.lease.folder() == "folder 1"
    if retires:
        rig.made[0].ends[0].sendall(message(0, RETIRE))
    else:
        rig.made[0].close()
    assert rig.woken.wait(10)
    assert rig.folder(2) == "folder 2"
    assert [rig.lease.folder() for _ in range(3)] == ["folder 2"] * 3, "what it has left says nothing any more"


def test_a_host_that_ends_before_it_answers(rig):
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
