"""Java connectors in hosts that end or are replaced, with a host in memory."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from heeler.java_host.connection import Event
from heeler.java_host.discovery import JavaPlugin
from heeler.java_host.proxy_classes import class_of
from spark_tasks.host_frames import HostGoneError
from spark_tasks.metrics.plugins import PluginMetrics
from tests.rigs.support import wait_until


class Line:
    """A connection. The connector in the host runs from its start to its stop, or to the end of the host."""

    def __init__(self, host: Host, on_event: Callable[[Event], None]) -> None:
        self.host = host
        self.on_event = on_event
        self.runs = self.gone = False

    def ask(self, op: str, **_: Any) -> dict[str, Any]:
        if op == "connector":
            self.host.begun.append(self)
            if self.host.slow is not None:
                self.host.slow.wait(20)
        if self.gone or self.host.refuses:
            raise HostGoneError("it has ended")
        self.runs = op != "stop"
        return {"taskClass": "Task"}

    def close(self) -> None:
        self.gone, self.runs = True, False

    def end(self) -> None:
        """The host ends; the report of it comes with `report`."""
        self.close()

    def report(self, event: Event | None = None) -> None:
        self.on_event(event or HostGoneError("it has ended"))


class Host:
    def __init__(self) -> None:
        self.lines: list[Line] = []
        self.begun: list[Line] = []
        self.refuses = False
        self.slow: threading.Event | None = None

    def connect(self, on_event: Callable[[Event], None], *_: Any) -> Line:
        line = Line(self, on_event)
        self.lines.append(line)
        return line

    @property
    def running(self) -> list[Line]:
        return [line for line in self.lines if line.runs]


class Context:
    def __init__(self) -> None:
        self.metrics = PluginMetrics()
        self.errors: list[Exception] = []

    def raise_error(self, error: Exception) -> None:
        self.errors.append(error)


class Rig:
    def __init__(self) -> None:
        self.host = Host()
        self.context = Context()
        cls = class_of(JavaPlugin("a.Connector", "source", "1", "here"), self.host)  # type: ignore[arg-type]
        self.connector = cls({"name": "c"}, self.context)
        self.connector.start()
        (self.first,) = self.host.running

    def background(self) -> list[threading.Thread]:
        return [thread for thread in threading.enumerate() if thread.name == "again-c"]

    def settle(self) -> None:
        for thread in self.background():
            thread.join(20)


@pytest.fixture
def rig() -> Rig:
    return Rig()


def test_a_connector_continues_in_the_next_host(rig: Rig) -> None:
    rig.first.end()
    rig.first.report()
    rig.settle()
    (second,) = rig.host.running
    second.report({"op": "retire"})
    rig.settle()
    (third,) = rig.host.running
    assert third not in (rig.first, second)
    rig.connector.stop()
    assert (rig.host.running, rig.context.errors) == ([], [])


def test_a_late_report_that_a_host_has_ended_starts_nothing_after_a_pause_and_resume(rig: Rig) -> None:
    rig.first.end()
    rig.connector.stop()
    rig.connector.start()
    rig.first.report()
    rig.settle()
    assert len(rig.host.running) == 1
    rig.connector.stop()
    assert rig.host.running == []


def test_a_start_in_the_next_host_does_not_survive_a_pause_and_resume(rig: Rig) -> None:
    rig.host.slow = slow = threading.Event()
    rig.first.end()
    rig.first.report()
    wait_until(lambda: len(rig.host.begun) == 2)
    rig.connector.stop()
    rig.host.slow = None
    rig.connector.start()
    slow.set()
    rig.settle()
    assert rig.host.running == [rig.host.lines[-1]]
    rig.connector.stop()
    assert rig.host.running == []


def test_attempts_to_reach_the_next_host_end_with_a_pause(rig: Rig) -> None:
    rig.host.refuses = True
    rig.first.end()
    rig.first.report()
    wait_until(lambda: len(rig.host.begun) > 2)
    rig.connector.stop()
    rig.host.refuses = False
    rig.connector.start()
    rig.settle()
    assert (len(rig.host.running), rig.context.errors) == (1, [])


def test_a_host_that_ends_just_after_the_start_is_followed_by_one_instance(rig: Rig) -> None:
    rig.connector.stop()
    ask = Line.ask

    def ends_soon(line: Line, op: str, **fields: Any) -> dict[str, Any]:
        response = ask(line, op, **fields)
        if op == "connector" and len(rig.host.lines) == 2:
            line.end()
            line.report()
        return response

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Line, "ask", ends_soon)
        rig.connector.start()
    rig.settle()
    assert len(rig.host.running) == 1


def test_a_sink_does_not_see_the_progress_of_replays_among_altered_offsets() -> None:
    asked: list[dict[str, Any]] = []

    class Asked:
        def ask(self, op: str, **fields: Any) -> dict[str, bool]:
            asked.append({"op": op, **fields})
            return {"altered": True}

    sink: Any = class_of(JavaPlugin("a.Sink", "sink", "1", "here"), Asked())  # type: ignore[arg-type]
    config = {"errors.deadletterqueue.topic.name": "dead"}
    assert sink.alter_offsets(config, {("t", 0): 5, ("dead", 0): 2})
    assert sink.alter_offsets({}, {("t", 1): None})
    assert [one["places"] for one in asked] == [[("t", 0, 5)], [("t", 1, None)]]
