"""The engine when Spark ends or is suspended: a Spark in memory, with threads in the place of executor processes."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import pytest

from spark_tasks.errors import ConnectError
from spark_tasks.spark import lifecycle
from spark_tasks.spark.lifecycle import EngineState
from spark_tasks.spark.residents import engine, monitor
from spark_tasks.spark.residents.engine import ResidentEngine
from spark_tasks.spark.residents.settings import ExecutorSettings
from spark_tasks.spark.residents.wire import Ticket
from tests.rigs.executors import Gate, Threads, gates
from tests.rigs.splits import Answer
from tests.rigs.support import wait_until


class Spark:
    """The first one ends, or is suspended, when a test says so; no other one starts."""

    driver_host = "127.0.0.1"
    pid, slots = 1, 8
    lives = True
    again = threading.Event()
    suspended = False
    asked = threading.Event()  # since it was suspended

    def __init__(self, _settings: Any, stop: threading.Event) -> None:
        if not Spark.lives:
            Spark.again.set()
            stop.wait(20)
            raise ConnectError("it does not start")

    def process_lives(self, _grace_s: float = 0.0) -> bool:
        return self.lives

    def alive(self) -> bool:
        while Spark.suspended:
            Spark.asked.wait(0.01)
            Spark.asked.set()
        return self.lives

    def close(self) -> int:
        return 0


class Launcher(Threads):
    """In the place of both launchers."""

    has_other_slots = False
    made: list[Launcher] = []  # noqa: RUF012

    def __init__(self, *_: Any) -> None:
        super().__init__()
        self.made.append(self)
        self.asked_late = 0

    @property
    def max_processes(self) -> int:  # type: ignore[override]
        return 0 if self.closed else 100

    def launch(self, ticket: Ticket) -> None:
        self.asked_late += self is not self.made[-1]
        super().launch(ticket)


Start = Callable[..., ResidentEngine]


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> Start:
    """Starts an engine, and returns it when a process of Spark has joined."""
    monkeypatch.setattr(lifecycle, "SparkJobs", Spark)
    monkeypatch.setattr(lifecycle, "with_archive", dict)
    monkeypatch.setattr(engine, "LocalLauncher", Launcher)
    monkeypatch.setattr(engine, "SparkLauncher", Launcher)
    monkeypatch.setattr(monitor, "TICK_S", 0.02)
    monkeypatch.setattr(Launcher, "made", [])
    monkeypatch.setattr(Spark, "lives", True)

    def start(settings: ExecutorSettings, hangs: Callable[[str, str], None] = lambda _task, _text: None
              ) -> ResidentEngine:
        made = ResidentEngine({"spark.master": "local[8]"}, settings, hangs)
        made.start()
        made.await_spark()
        wait_until(lambda: len(Launcher.made) == 2)
        wait_until(lambda: bool(Launcher.made[1].works))
        return made

    return start


@pytest.mark.integration  # the engine's threads have to keep pace with the test: it may need a second try
@pytest.mark.timeout(60)
def test_no_process_is_asked_of_a_spark_that_has_ended(started: Start) -> None:
    """Failed attempts would delay the local processes that run splits until there is another Spark."""
    made = started(ExecutorSettings(spark_delay_s=0.0))
    _, spark = Launcher.made
    assert made.submit("a-0", [Answer(1)]).result(20) == [1]
    spark.broken = "Spark has ended"
    Spark.lives = False
    for work in spark.works:
        work.shutdown(socket.SHUT_RDWR)
    assert Spark.again.wait(20)
    assert made.submit("a-0", [Answer(2)]).result(20) == [2]
    made.close()
    assert (len(Launcher.made), spark.asked_late) == (3, 0)


@pytest.mark.timeout(60)
def test_what_hangs_is_reported_and_processes_are_replaced_while_spark_is_suspended(
    started: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    reported: list[str] = []
    made = started(ExecutorSettings(spark_delay_s=0.0, slow_s=0.05), lambda task, _text: reported.append(task))
    monkeypatch.setattr(Spark, "suspended", True)
    for work in Launcher.made[1].works:
        work.shutdown(socket.SHUT_RDWR)  # a process that has ended may mean that Spark has
    assert Spark.asked.wait(20)
    gates["held"] = threading.Event()
    held: Future[list[Any]] = made.submit("h-0", [Gate("held")])
    wait_until(lambda: reported.count("h-0") > 1)
    gates["held"].set()
    assert held.result(20) == ["held"]
    Spark.suspended = False
    made.close()


class Broken(Spark):
    def __init__(self, *_: Any) -> None:
        raise ConnectError("there is no Java")


def test_a_local_spark_that_ends_twice_within_a_minute_fails_no_task(
    started: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Splits run in processes of the worker; only a plugin that asks for Spark gets the error."""
    made = started(ExecutorSettings(spark_delay_s=0.0))
    gates["early"] = threading.Event()
    early = made.submit("e-0", [Gate("early")])
    for _ in range(2):
        spark: Any = wait_until(lambda: made.spark)
        spark.lives = False
        wait_until(lambda ended=spark: made.spark is not ended)  # type: ignore[misc]
    wait_until(lambda: made.state is EngineState.FAILED)
    assert made.submit("a-0", [Answer(2)]).result(20) == [2]
    gates["early"].set()
    assert early.result(20) == ["early"]
    with pytest.raises(ConnectError, match="Spark ended again"):
        made.await_spark()
    monkeypatch.setattr(lifecycle, "RETRY_AFTER_S", 0.0)
    made.await_spark()
    assert made.state is EngineState.RUNNING
    made.close()


@pytest.mark.usefixtures("started")
def test_a_local_spark_that_cannot_start_fails_no_task_and_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lifecycle, "SparkJobs", Broken)
    made = ResidentEngine({"spark.master": "local[8]"}, ExecutorSettings(spark_delay_s=0.0))
    made.start()
    assert made.submit("a-0", [Answer(1)]).result(20) == [1]
    wait_until(lambda: made.state is EngineState.FAILED)
    assert made.submit("a-0", [Answer(2)]).result(20) == [2]
    with pytest.raises(ConnectError, match="there is no Java"):
        made.await_spark()
    monkeypatch.setattr(lifecycle, "SparkJobs", Spark)
    monkeypatch.setattr(lifecycle, "RETRY_AFTER_S", 0.0)
    assert made.submit("a-0", [Answer(3)]).result(20) == [3]
    wait_until(lambda: made.state is EngineState.RUNNING)
    made.close()


@pytest.mark.usefixtures("started")
def test_a_spark_that_gets_no_thread_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    start, refusals = threading.Thread.start, [1]

    def limited(thread: threading.Thread) -> None:
        if thread.name == "engine-start" and refusals:
            refusals.pop()
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", limited)
    made = ResidentEngine({"spark.master": "local[8]"}, ExecutorSettings())
    made.start()
    with pytest.raises(RuntimeError, match="can't start"):
        made.await_spark()
    monkeypatch.setattr(lifecycle, "RETRY_AFTER_S", 0.0)
    made.await_spark()
    made.close()
