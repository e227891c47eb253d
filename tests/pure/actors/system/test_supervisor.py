"""The supervisor with real actors that die like Pykka's: from an exception in a message that nobody waits for."""

from __future__ import annotations

import threading
from typing import Any

import pykka
import pytest

from actors.herder.effects import StartInstance, StopInstance
from actors.instances.pooled import ActorThreads
from actors.instances.registry import ActorInstances
from actors.messages.commands import StartConnector, StartTask
from actors.messages.correlation_ids import Epoch
from actors.messages.events import ConnectorStateReported, TaskStateReported
from actors.system.supervisor import Supervisor
from storage.ids import ConnectorName, ConnectorTaskId, State, TargetState
from tests.rigs.support import no_thread, wait_until

CONNECTOR = ConnectorName("c")
TASK = ConnectorTaskId(CONNECTOR, 0)
EPOCHS = {CONNECTOR: Epoch(1), TASK: Epoch(2)}


class Mortal(pykka.ThreadingActor):
    use_daemon_thread = True

    def on_receive(self, message: Any) -> None:
        if message == "die":
            raise RuntimeError("a defect")


class Rig:
    """A herder, a member, a connector and a task, and all that is said of them."""

    def __init__(self) -> None:
        self.said: list[Any] = []
        self.failures: list[str] = []
        self.core = {"herder": Mortal.start(), "group member": Mortal.start()}
        self.parts = {CONNECTOR: Mortal.start(), TASK: Mortal.start()}
        self.instances = ActorInstances(self.said.append, lambda *_: self.parts[CONNECTOR],
                                        lambda *_: self.parts[TASK], lambda _: None)
        for item, command in ((CONNECTOR, StartConnector(CONNECTOR, {}, TargetState.STARTED)),
                              (TASK, StartTask(TASK, {}, {}, TargetState.STARTED, 1))):
            self.instances.start(StartInstance(item, EPOCHS[item], command))
        # As the worker does: what is told a failure halts.
        self.threads = ActorThreads()
        self.supervisor = Supervisor(self.core, self.instances, self.threads.retry, self.failures.append,
                                     lambda: bool(self.failures))

    def kill(self, ref: pykka.ActorRef[Any]) -> None:
        ref.tell("die")
        wait_until(lambda: not ref.is_alive())


@pytest.fixture
def rig():
    rig = Rig()
    yield rig
    for ref in (*rig.core.values(), *rig.parts.values()):
        ref.stop(timeout=5)


def test_living_actors_are_left_alone(rig):
    rig.supervisor.check()
    assert (rig.said, rig.failures) == ([], [])


@pytest.mark.parametrize(("item", "kind"), [(CONNECTOR, ConnectorStateReported), (TASK, TaskStateReported)])
def test_a_dead_instance_is_failed_once_and_can_be_stopped(rig, item, kind):
    rig.kill(rig.parts[item])
    for _ in range(2):
        rig.supervisor.check()
    [report] = rig.said
    assert isinstance(report, kind)
    assert (report.epoch, report.state, report.stopped_for_good) == (EPOCHS[item], State.FAILED, False)
    assert report.trace == f"The actor of {item} died; see the worker's log"
    rig.instances.stop(StopInstance(item, EPOCHS[item]))
    assert (rig.said[-1].state, rig.said[-1].stopped_for_good) == (State.UNASSIGNED, True)
    assert rig.failures == [], "the worker and the others go on"


@pytest.mark.parametrize("name", ["herder", "group member"])
def test_without_a_core_actor_the_worker_stops(rig, name):
    """Actors that end during that stop do not become failures."""
    rig.kill(rig.core[name])
    rig.supervisor.check()
    assert rig.failures == [f"The {name} died"]
    for ref in (*rig.core.values(), *rig.parts.values()):
        ref.stop(timeout=5)
    rig.supervisor.check()
    assert (rig.said, len(rig.failures)) == ([], 1)


def test_what_found_no_thread_has_one_later(rig, monkeypatch):
    """A connector's start, for which the herder waits without a limit."""
    begun = threading.Event()
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", no_thread)
        rig.threads.run(begun.set)
    rig.supervisor.check()
    assert begun.wait(10)
