"""The engine of heeler.executors.mode=batch, with a Spark in memory; tests/integration has the real one."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from spark_tasks.spark import lifecycle
from spark_tasks.spark.batch_engine import SparkEngine
from spark_tasks.spark.context import SparkSilentError
from spark_tasks.spark.executor import Outcome
from tests.rigs.splits import Answer
from tests.rigs.support import wait_until


class Spark:
    """A cluster that had two slots, and has one since Spark was started again."""

    started = 0
    looks = 0
    pid = 1
    resumed = threading.Event()  # the JVM answers a cancellation
    asked: list[str] = []  # noqa: RUF012
    cancelled: list[str] = []  # noqa: RUF012

    def __init__(self, *_: Any) -> None:
        Spark.started += 1
        self.number = Spark.started
        self.gate = threading.Event()
        self.warm = False

    @property
    def slots(self) -> int:
        Spark.looks += 1
        return 2 if self.number == 1 else 1

    def run(self, _group: str, label: str, partitions: list[list[bytes]], *_more: Any) -> list[list[Outcome]]:
        if self.number == 1 and label != "warm-up":
            raise SparkSilentError("it has ended")
        if label != "warm-up":
            self.gate.wait(20)
        self.warm = True
        return [[Outcome(1) for _ in splits] for splits in partitions]

    def alive(self, _grace_s: float = 0.0) -> bool:
        return self.number > 1

    def cancel(self, group: str) -> None:
        Spark.asked.append(group)
        Spark.resumed.wait(20)
        Spark.cancelled.append(group)

    def close(self) -> int:
        self.gate.set()
        return 0


def test_batches_wait_quietly_if_a_new_spark_has_fewer_slots(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lifecycle, "SparkJobs", Spark)
    monkeypatch.setattr(lifecycle, "with_archive", dict)
    engine = SparkEngine({})
    engine.start()
    engine.await_spark()
    with pytest.raises(SparkSilentError):
        engine.submit("lost-0", [Answer(1)]).result(20)
    wait_until(lambda: Spark.started == 2)
    engine.await_spark()
    running = engine.submit("a-0", [Answer(1)])
    wait_until(running.running)
    waiting = engine.submit("b-0", [Answer(1)])
    looks: list[int] = []

    def is_quiet() -> bool:
        """Whether no thread has looked for work since the last call; one that does not sleep looks all the time."""
        looks.append(Spark.looks)
        return len(looks) > 1 and looks[-1] == looks[-2]

    wait_until(is_quiet)
    spark = engine.spark
    assert isinstance(spark, Spark)
    spark.gate.set()
    assert (running.result(20), waiting.result(20)) == ([1], [1])
    engine.close()


def test_the_cancellation_of_a_batch_does_not_wait_for_a_suspended_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is asked for by the herder's thread."""
    monkeypatch.setattr(lifecycle, "SparkJobs", Spark)
    monkeypatch.setattr(lifecycle, "with_archive", dict)
    monkeypatch.setattr(Spark, "started", 1)
    engine = SparkEngine({})
    engine.start()
    engine.await_spark()
    spark = engine.spark
    assert isinstance(spark, Spark)
    wait_until(lambda: spark.warm and not engine.figures().running)  # else the batch shares the job of the warm-up
    running = engine.submit("a-0", [Answer(1)])
    wait_until(running.running)
    engine.cancel(running)
    assert Spark.cancelled == []
    wait_until(lambda: len(Spark.asked) == 1)
    Spark.resumed.set()
    wait_until(lambda: Spark.cancelled == Spark.asked)
    engine.close()


def test_batches_that_run_or_wait_for_long_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lifecycle, "SparkJobs", Spark)
    monkeypatch.setattr(lifecycle, "with_archive", dict)
    monkeypatch.setattr(Spark, "started", 1)
    engine = SparkEngine({}, slow_s=0.01)
    unlimited = SparkEngine({})
    for each in (engine, unlimited):
        each.start()
        each.await_spark()
    spark = engine.spark
    assert isinstance(spark, Spark)
    wait_until(lambda: spark.warm and not engine.figures().running)
    assert engine.degraded() == []
    running = engine.submit("a-0", [Answer(1)])
    wait_until(running.running)
    engine.submit("b-0", [Answer(1)])
    unlimited.submit("c-0", [Answer(1)])
    wait_until(lambda: list(engine.degraded()) == ["a-0: a batch has been running for 0 s",
                                                   "b-0: a batch has been waiting for Spark for 0 s"])
    assert list(unlimited.degraded()) == []
    engine.cancel(running)
    assert not [line for line in engine.degraded() if line.startswith("a-0")], "its job goes on"
    spark.gate.set()
    wait_until(lambda: not engine.degraded())
    engine.close()
    unlimited.close()


def test_a_batch_whose_future_is_cancelled_while_it_waits_is_dropped() -> None:
    engine = SparkEngine({})
    assert engine.submit("a-0", [Answer(1)]).cancel()
    assert engine.figures().waiting == 0
