"""A connector whose plugin hangs is reported like a task, and what does not stop in time with the stack of its call."""

from __future__ import annotations

import linecache
import logging
import queue
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from actors.herder.effects import AbandonInstance, StartInstance, StopInstance
from actors.instances.connector import ConnectorActor, ConnectorActors
from actors.instances.pooled import ActorThreads
from actors.instances.registry import ActorInstances
from actors.instances.task import TaskActors
from actors.instances.watchdog import Watchdog
from actors.messages.commands import ChangeTargetState, GenerateTaskConfigs, StartConnector, StartTask
from actors.messages.correlation_ids import Epoch, OpId
from actors.messages.events import ConnectorStateReported, InstanceRecovered, InstanceStalled, Remark
from actors.ticker import Ticker
from spark_tasks.config.masking import process_secrets
from spark_tasks.plugins import Plugins
from spark_tasks.task import Progress
from storage.ids import ConnectorName, ConnectorTaskId, State, TargetState
from tests.rigs.plugin_under_test import FOUND, Scripted
from tests.rigs.support import wait_until

EPOCH = Epoch(5)


class Runner:
    """A TaskRunner whose `close` hangs, and whose run_once may fail."""

    version = "1"
    batch = None

    def __init__(self, hang: Callable[[], None]) -> None:
        self.hang = hang
        self.error: Exception | None = None

    def start(self) -> None:
        """Nothing."""

    pause = resume = stop_starting = cancel = start

    def run_once(self) -> Progress:
        if self.error is not None:
            raise self.error
        return Progress(idle_ms=60_000)

    def close(self) -> None:
        self.hang()


class Rig:
    """A worker's connectors and tasks under a watchdog that checks when a test tells it to. `hangs`: the method of the
    plugin that hangs until the end of the test.
    """

    def __init__(self, name: str) -> None:
        self.connector = ConnectorName(name)
        self.task = ConnectorTaskId(self.connector, 0)
        self.said: queue.Queue[Any] = queue.Queue()
        self.reported: list[InstanceStalled | InstanceRecovered] = []
        self.hangs = ""
        self.hanging, self.released = threading.Event(), threading.Event()
        Scripted.hooks[name] = self.visit
        self.now = 0.0
        self.watchdog = Watchdog(self.reported.append, clock=lambda: self.now)
        self.connectors = ConnectorActors(
            lambda epoch, made, pace: ConnectorActor.start(
                epoch, self.said.put, Plugins(installed=FOUND), lambda config, _: config, lambda *_: [],
                threads=ActorThreads(), made=made, pace=pace),
            watchdog=self.watchdog, limit_s=lambda _: 10.0)
        self.runner = Runner(lambda: self.visit("close"))
        self.ticker = Ticker()
        self.ticker.start()
        self.tasks = TaskActors(self.said.put, lambda *_: self.runner, self.ticker, None, self.watchdog, lambda _: 10.0)
        self.instances = ActorInstances(
            self.said.put, self.connectors.start, self.tasks.start, lambda _: None,
            where=lambda ref: self.tasks.where(ref) or self.connectors.where(ref))

    def visit(self, what: str) -> None:
        if what == self.hangs:
            self.hang_here()

    def hang_here(self) -> None:
        self.hanging.set()
        self.released.wait(20)

    def start(self) -> None:
        config = {"name": self.connector, "connector.class": "ScriptedSource"}
        command = StartConnector(self.connector, config, TargetState.STARTED)
        self.instances.start(StartInstance(self.connector, EPOCH, command))

    def start_task(self) -> None:
        command = StartTask(self.task, {}, {}, TargetState.STARTED, 1)
        self.instances.start(StartInstance(self.task, EPOCH, command))
        assert self.said.get(timeout=10).state is State.RUNNING

    def stalled(self) -> InstanceStalled:
        """The report after 11 seconds in the call that hangs."""
        assert self.hanging.wait(10)
        self.now += 11
        self.watchdog.check()
        wait_until(lambda: self.reported)
        found = self.reported[-1]
        assert isinstance(found, InstanceStalled)
        return found

    def recovers(self) -> bool:
        self.watchdog.check()
        return InstanceRecovered(self.connector, EPOCH) in self.reported

    def remark(self) -> Remark:
        while not isinstance(said := self.said.get(timeout=10), Remark):
            pass
        return said

    def close(self) -> None:
        self.released.set()
        Scripted.hooks.pop(self.connector, None)
        for _, ref in self.instances.living():
            ref.stop(timeout=10)
        self.ticker.stop()


@pytest.fixture
def rig(request: pytest.FixtureRequest) -> Iterator[Rig]:
    rig = Rig(request.node.name)
    yield rig
    rig.close()


@pytest.mark.parametrize("hangs", ["init", "start", "stop", "task_configs"])
def test_a_connector_that_hangs_is_reported_with_its_stack(rig: Rig, hangs: str) -> None:
    rig.hangs = hangs
    rig.start()
    _, ref = rig.instances.living()[0]
    if hangs in ("stop", "task_configs"):
        assert rig.said.get(timeout=10).state is State.RUNNING
        ref.tell(ChangeTargetState(TargetState.PAUSED) if hangs == "stop" else GenerateTaskConfigs(OpId(1)))
    found = rig.stalled()
    assert (found.item, found.epoch, found.for_ms, found.hangs) == (rig.connector, EPOCH, 11_000, True)
    assert found.what.startswith("a call on the worker has not returned for 11 s (task.progress.timeout.ms)\n")
    assert "in hang_here" in found.what
    assert rig.watchdog.degraded() == [f"{rig.connector}: a call on the worker has not returned for 11 s"]
    rig.released.set()
    wait_until(rig.recovers)
    assert rig.watchdog.degraded() == []


def test_a_connector_without_messages_is_not_stalled(rig: Rig) -> None:
    rig.start()
    report = rig.said.get(timeout=10)
    assert isinstance(report, ConnectorStateReported)
    rig.now += 100
    rig.watchdog.check()
    assert rig.watchdog.degraded() == []
    assert rig.reported == []


def test_a_task_that_has_failed_and_whose_close_hangs_is_reported(rig: Rig) -> None:
    """It is not FAILED before its close returns."""
    rig.start_task()
    rig.hangs, rig.runner.error = "close", OSError("the database is away")
    _, ref = rig.instances.living()[0]
    ref.proxy().wake()
    found = rig.stalled()
    assert (found.item, found.hangs) == (rig.task, True)
    assert "in hang_here" in found.what


@pytest.mark.parametrize("what", ["a task", "a connector"])
def test_what_does_not_stop_is_abandoned_with_the_stack_of_its_call(
    rig: Rig, caplog: pytest.LogCaptureFixture, what: str
) -> None:
    item = rig.task if what == "a task" else rig.connector
    if what == "a task":
        rig.start_task()
    else:
        rig.start()
        assert rig.said.get(timeout=10).state is State.RUNNING
    rig.hangs = "close" if what == "a task" else "stop"
    rig.instances.stop(StopInstance(item, EPOCH))
    assert rig.hanging.wait(10)
    process_secrets().add("hanging instances", ["self.released.wait(20)"])
    rig.instances.abandon(AbandonInstance(item, EPOCH, 5000))
    line = "Did not stop within 5000 ms (task.shutdown.graceful.timeout.ms) and was abandoned"
    remark = rig.remark()
    assert (remark.item, remark.source) == (item, "worker")
    assert remark.what.startswith(f"{line}; its call is here:\n")
    assert "in hang_here" in remark.what
    assert "wait(20)" not in remark.what, "secrets are masked"
    [record] = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert record.getMessage() == f"{line}; its call is here:"
    assert vars(record)["heeler_about"] == item
    assert "in hang_here" in vars(record)["below"]


def test_what_does_not_stop_without_a_call_is_abandoned_without_a_stack(rig: Rig) -> None:
    """Such as one whose actor has just ended."""
    rig.start_task()
    rig.instances.abandon(AbandonInstance(rig.task, EPOCH, 5000))
    assert rig.remark().what.endswith("and was abandoned")


def test_an_abandonment_does_not_wait_for_the_folder_of_the_plugin(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may be on a mount that does not answer, perhaps for the same reason as the plugin."""
    asked, over = threading.Event(), threading.Event()

    def source_line(*_: object) -> str:
        asked.set()
        assert over.wait(20)
        return "a line"

    rig.start_task()
    rig.hangs = "close"
    rig.instances.stop(StopInstance(rig.task, EPOCH))
    assert rig.hanging.wait(10)
    monkeypatch.setattr(linecache, "getline", source_line)
    rig.instances.abandon(AbandonInstance(rig.task, EPOCH, 5000))
    assert asked.wait(10)
    over.set()
    assert "a line" in rig.remark().what
