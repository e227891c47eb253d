"""Connectors of third parties in executor processes of their own, with a real engine."""

from __future__ import annotations

import logging
import os
import queue
import signal
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from pyspark import SparkContext

from heeler.worker.logs import subject
from spark_tasks.errors import ConfigError, ConnectError, DataError, RetriableError
from spark_tasks.metrics.plugins import PluginMetrics, Series
from spark_tasks.plugin_processes.call_limit import CallLimit
from spark_tasks.plugin_processes.connector_process import ConnectorProcess
from spark_tasks.plugin_processes.plugin_calls import PluginCalls
from spark_tasks.plugins.api import Connector, ConnectorContext
from spark_tasks.spark.residents.engine import ResidentEngine
from tests.rigs.monitoring_connector import MonitoringConnector, StatelessConnector
from tests.rigs.support import wait_until
from tests.rigs.task_processes import engine_without_spark, in_thread, wait_ended
from tests.rigs.workers import SOON_S

pytestmark = pytest.mark.integration

OFFSETS = [({"table": "t"}, {"row": 3})]


@pytest.fixture(scope="module")
def engine() -> Iterator[ResidentEngine]:
    with engine_without_spark("connectors") as engine:
        yield engine


class Context(ConnectorContext):
    """What the worker is told, in the order in which it is."""

    def __init__(self) -> None:
        self.metrics_ = PluginMetrics()
        self.told: queue.Queue[object] = queue.Queue()
        self.refusal: Exception | None = None

    @property
    def metrics(self) -> PluginMetrics:
        return self.metrics_

    def request_task_reconfiguration(self) -> None:
        self.told.put("reconfigure")

    def raise_error(self, error: Exception) -> None:
        self.told.put(error)

    def offsets(self) -> Sequence[Any]:
        if self.refusal is not None:
            raise self.refusal
        return OFFSETS


class Rig:
    def __init__(self, engine: ResidentEngine, folder: Path) -> None:
        self.engine = engine
        self.folder = folder
        self.context = Context()
        self.instances: list[ConnectorProcess] = []

    def instance(self, connector: type[Connector] = MonitoringConnector, **config: str) -> ConnectorProcess:
        given = {"name": "c", "folder": str(self.folder), **config}
        made = ConnectorProcess(self.engine, "c", connector, given, self.context, lambda: self.context.told.put("lost"))
        self.instances.append(made)
        return made

    def told(self) -> Any:
        return self.context.told.get(timeout=SOON_S)

    def order(self, what: str) -> None:
        (self.folder / "new").write_text(what)
        (self.folder / "new").rename(self.folder / "order")

    def calls(self) -> list[tuple[str, int]]:
        """The calls, and the process of each."""
        lines = (self.folder / "calls").read_text().splitlines() if (self.folder / "calls").exists() else []
        return [(what, int(pid)) for what, pid in map(str.split, lines)]

    def pids(self) -> list[int]:
        return list(dict.fromkeys(pid for _, pid in self.calls()))

    def wait_ended(self) -> None:
        assert os.getpid() not in self.pids()
        wait_ended(*self.pids())


@pytest.fixture
def rig(engine: ResidentEngine, tmp_path: Path) -> Iterator[Rig]:
    rig = Rig(engine, tmp_path)
    yield rig
    for instance in rig.instances:
        instance.abandon()


def test_a_connector_that_monitors_keeps_its_process_until_it_stops(rig: Rig) -> None:
    connector = rig.instance()
    connector.start()
    for _ in range(2):
        assert connector.task_configs(1) == [{"starts": "1", "offsets": str(OFFSETS)}]
    connector.stop()
    assert [what for what, _ in rig.calls()] == ["start", "task_configs", "task_configs", "stop"]
    assert len(rig.pids()) == 1
    rig.wait_ended()
    connector.start()
    assert connector.task_configs(1)[0]["starts"] == "1", "another object"
    assert len(rig.pids()) == 2


def test_one_that_only_generates_configurations_has_a_process_for_each_call(rig: Rig) -> None:
    connector = rig.instance(StatelessConnector)
    connector.start()
    assert connector.task_configs(2) == [{"n": "0"}, {"n": "1"}]
    rig.wait_ended()
    assert len(connector.task_configs(1)) == 1
    connector.stop()
    assert len(rig.pids()) == 2
    rig.wait_ended()


def test_what_a_connector_tells_the_worker_arrives(rig: Rig) -> None:
    connector = rig.instance()
    connector.start()
    rig.order("reconfigure")
    assert rig.told() == "reconfigure"
    rig.order("fail")
    error = rig.told()
    assert isinstance(error, ConfigError)
    assert str(error) == "the table is gone"
    rig.order("count")
    wait_until(lambda: rig.context.metrics.figures().values == {Series("orders", "counter"): (1.0, 0.0)},
               what="the metric")


def test_its_log_lines_are_the_workers_and_so_are_the_levels(rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
    def lines() -> list[str]:
        return [r.getMessage() for r in caplog.records if r.name == "tests.rigs.monitoring_connector"]

    caplog.set_level(logging.INFO)
    connector = rig.instance()
    connector.start()
    wait_until(lambda: lines() == ["info: start"], what="the line")
    [record] = [r for r in caplog.records if r.getMessage() == "info: start"]
    assert (subject(record), record.process) == (("c", None), rig.pids()[0])
    caplog.set_level(logging.DEBUG, "tests.rigs.monitoring_connector")

    def asked() -> bool:
        connector.task_configs(1)
        return "debug: task_configs" in lines()

    wait_until(asked, what="the process to have the new level")


def test_an_error_of_the_offsets_topic_reaches_the_connector(rig: Rig) -> None:
    rig.context.refusal = ConnectError("no broker")
    connector = rig.instance()
    connector.start()
    with pytest.raises(ConnectError, match="no broker"):
        connector.task_configs(1)


@pytest.mark.parametrize("method", ["start", "task_configs", "stop"])
def test_an_error_of_the_connector_is_raised_as_it_is(rig: Rig, method: str) -> None:
    connector = rig.instance(**{method: "fail"})

    def live() -> None:
        connector.start()
        connector.task_configs(1)
        connector.stop()

    with pytest.raises(DataError, match=f"^{method} failed$"):
        live()
    connector.close()
    rig.wait_ended()


@pytest.mark.parametrize("how", ["hold", "sleep"])
def test_a_call_that_hangs_shows_where_and_ends_when_the_connector_is_abandoned(rig: Rig, how: str) -> None:
    connector = rig.instance(start=how)
    thread, raised = in_thread(connector.start)
    wait_until(lambda: rig.calls() and connector.plugin_calls(), what="the call")
    wait_until(lambda: "in misbehave" in connector.plugin_calls()[0].stack, what="the stack")
    connector.abandon()
    thread.join(SOON_S)
    assert [isinstance(error, RetriableError) for error in raised] == [True]
    rig.wait_ended()


def test_a_connector_whose_process_ends_starts_again_in_another_one(
    rig: Rig, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    connector = rig.instance()
    connector.start()
    connector.recover()
    assert len(rig.calls()) == 1, "it has its process"
    os.kill(rig.pids()[0], signal.SIGKILL)
    assert rig.told() == "lost"
    connector.recover()  # although nobody else may have noticed it yet
    assert [what for what, _ in rig.calls()] == ["start", "start"]
    rig.order("reconfigure")
    assert rig.told() == "reconfigure"
    rig.order("exit")
    assert rig.told() == "lost"
    with pytest.raises(RetriableError, match="the process of connector c has ended twice within 60 s"):
        connector.recover()


def test_configurations_are_asked_of_one_that_has_started_again(rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
    connector = rig.instance()
    connector.start()
    os.kill(rig.pids()[0], signal.SIGKILL)
    wait_until(lambda: "The process of c-connector was killed" in caplog.text, what="the monitor to find it")
    assert connector.task_configs(1)[0]["starts"] == "1"
    assert [what for what, _ in rig.calls()] == ["start", "start", "task_configs"]


@pytest.mark.parametrize(("connector", "method"), [
    (MonitoringConnector, "start"), (MonitoringConnector, "task_configs"), (StatelessConnector, "task_configs")])
def test_a_process_that_ends_in_a_call_is_not_tried_again(
    rig: Rig, connector: type[Connector], method: str
) -> None:
    instance = rig.instance(connector, **{method: "exit"})

    def live() -> None:
        instance.start()
        instance.task_configs(1)

    with pytest.raises(RetriableError, match="the process of c-connector ended with exit code 7"):
        live()
    assert [what for what, _ in rig.calls()].count(method) == 1


def test_a_retriable_error_of_stop_is_raised(rig: Rig) -> None:
    connector = rig.instance(stop="retry")
    connector.start()
    with pytest.raises(RetriableError, match="stop could be tried again"):
        connector.stop()
    rig.wait_ended()


def test_a_connector_that_needs_a_session_runs_on_the_worker(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyspark.sql.SparkSession.Builder.getOrCreate", lambda _: SparkContext.getOrCreate())
    sessions: list[None] = []
    monkeypatch.setattr(SparkContext, "getOrCreate", lambda *_: sessions.append(None))
    connector = rig.instance(start="session")
    connector.start()
    assert connector.task_configs(1) == [{"starts": "1", "offsets": str(OFFSETS)}]
    connector.stop()
    assert sessions == [None]
    assert rig.pids()[1:] == [os.getpid()]


def test_a_connector_that_needs_a_session_for_its_configurations_starts_again_on_the_worker(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pyspark.sql.SparkSession.Builder.getOrCreate", lambda _: SparkContext.getOrCreate())
    monkeypatch.setattr(SparkContext, "getOrCreate", lambda *_: None)
    connector = rig.instance(task_configs="session")
    connector.start()
    with pytest.raises(RetriableError, match="SparkSession"):
        connector.task_configs(1)
    assert connector.task_configs(1)[0]["starts"] == "1"
    assert [(what, pid == os.getpid()) for what, pid in rig.calls()] == [
        ("start", False), ("task_configs", False), ("start", True), ("task_configs", True)]


def test_a_function_of_a_plugin_is_called_in_a_process_that_ends_with_the_call(
    rig: Rig, caplog: pytest.LogCaptureFixture
) -> None:
    calls = PluginCalls(lambda: rig.engine, CallLimit(), "c")
    caplog.set_level(logging.INFO)
    found = calls.call(StatelessConnector, StatelessConnector.validate, {"folder": str(rig.folder)})
    assert found == {"folder": ["too far away"]}
    wait_until(lambda: "info: validate" in caplog.text, what="its last line")
    rig.wait_ended()


def test_a_function_that_hangs_is_killed(rig: Rig) -> None:
    calls = PluginCalls(lambda: rig.engine, CallLimit(), "c")
    config = {"folder": str(rig.folder), "validate": "hold"}
    thread, raised = in_thread(lambda: calls.call(StatelessConnector, StatelessConnector.validate, config))
    wait_until(rig.calls, what="the call")
    calls.kill()
    thread.join(SOON_S)
    assert [isinstance(error, RetriableError) for error in raised] == [True]
    rig.wait_ended()
    with pytest.raises(ConnectError):  # with a process that is killed, or without one
        calls.call(StatelessConnector, StatelessConnector.validate, config)
    assert len(rig.calls()) == 1


def test_a_function_that_ends_its_process_is_not_called_again(rig: Rig) -> None:
    config = {"folder": str(rig.folder), "validate": "exit"}
    with pytest.raises(RetriableError, match="the process of c-connector ended with exit code 7"):
        PluginCalls(lambda: rig.engine, CallLimit(), "c").call(StatelessConnector, StatelessConnector.validate, config)
    assert len(rig.calls()) == 1
