"""Metrics of tasks and plugins: windows, phases, plugins' own series, and figures sent with a split's result."""

from __future__ import annotations

import math
import pickle
import threading
import time
from concurrent.futures import Future
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_tasks.errors import ConnectError, DataError
from spark_tasks.metrics.phases import each, measured, phase, stage_of
from spark_tasks.metrics.plugins import MAX_SERIES, Figures, PluginMetrics, Series, counting, plugin_metrics
from spark_tasks.metrics.task import Flight, SplitFigures, TaskMetrics
from spark_tasks.metrics.windows import HALF_S, Window
from spark_tasks.spark.executor import failed_outcome, value_of


@given(st.lists(st.tuples(st.floats(0, 20), st.floats(0, 1e6)), max_size=30), st.floats(0, 100))
def test_a_window_has_the_values_of_the_last_minute_only(steps, later):
    window, now, values = Window(), 1000.0, []
    for pause, value in steps:
        now += pause
        window.add(value, now)
        values.append((now, value))
    now += later
    recent = [value for at, value in values if now - at < HALF_S]
    if recent:
        assert window.maximum(now) >= max(recent)
        assert window.minimum(now) <= min(recent)
        assert window.minimum(now) <= window.average(now) * (1 + 1e-9) + 1e-9
    if not any(now - at < 2 * HALF_S for at, _ in values):
        assert math.isnan(window.average(now))
        assert math.isnan(window.maximum(now))
        assert window.rate(now) == 0
    assert window.rate(now) <= sum(value for _, value in values) / HALF_S + 1e-9


def test_a_rate_is_the_sum_divided_by_its_window():
    window = Window()
    for second in range(60):
        window.add(10, float(second))
    assert 9 < window.rate(60.0) < 11


def test_time_in_nested_phases_counts_for_the_innermost():
    begun = time.perf_counter()
    with measured() as watch, phase("write"):
        assert list(each("fetch", iter([1, 2]))) == [1, 2]
        with phase("decode"):
            threading.Event().wait(0.02)
    assert set(watch.seconds) == {"write", "fetch", "decode"}
    assert watch.seconds["decode"] >= 0.02
    assert sum(watch.seconds.values()) <= time.perf_counter() - begun, "no time counts twice"
    with phase("write"):
        assert set(watch.seconds) == {"write", "fetch", "decode"}, "nobody measures any more"


def test_an_error_keeps_its_phase_when_it_is_pickled():
    def convert() -> None:
        with phase("write"), phase("convert"):
            raise DataError("no number")

    with pytest.raises(DataError) as caught:
        convert()
    outcome = pickle.loads(pickle.dumps(failed_outcome(caught.value)))
    with pytest.raises(DataError) as home:
        value_of(outcome)
    assert stage_of(home.value) == "convert"
    assert stage_of(ConnectError("x")) == ""


def test_an_error_that_cannot_be_sent_keeps_its_phase():
    class OddError(Exception):
        def __init__(self, lock: threading.Lock) -> None:
            super().__init__("odd")
            self.lock = lock

    with pytest.raises(OddError) as caught, phase("transform"):
        raise OddError(threading.Lock())
    with pytest.raises(ConnectError) as home:
        value_of(pickle.loads(pickle.dumps(failed_outcome(caught.value))))
    assert stage_of(home.value) == "transform"


def test_an_error_without_writable_attributes_is_marked_too():
    @dataclass(frozen=True)
    class FrozenError(Exception):
        code: int

        def __getattr__(self, name: str) -> object:
            raise RuntimeError(name)

    with pytest.raises(FrozenError) as caught, phase("write"):
        raise FrozenError(7)
    assert stage_of(caught.value) == "write"


def test_plugin_metrics_of_splits_are_added_up_on_the_worker():
    task = TaskMetrics("sink")
    for _ in range(2):
        with counting():
            plugin_metrics().counter("rows_skipped_total", "Rows without a key.", table="a").inc(2)
            plugin_metrics().gauge("open_files").set(3)
            plugin_metrics().summary("call_seconds").observe(0.5)
            split = SplitFigures(plugins=plugin_metrics().counted())
        task.add_splits([pickle.loads(pickle.dumps(split)), None])
    found = task.plugins.figures()
    assert found.values == {
        Series("rows_skipped", "counter", (("table", "a"),)): (4, 0),
        Series("open_files", "gauge"): (3, 0), Series("call_seconds", "summary"): (2, 1.0),
    }
    assert found.helps == {"rows_skipped": "Rows without a key."}


def test_numbers_of_other_libraries_become_pythons():
    metrics = PluginMetrics()
    for number in (np.int64(3), np.float32(0.5), True):
        metrics.counter("rows").inc(number)
        metrics.gauge("size").set(number)
        metrics.summary("time").observe(number)
    values = metrics.figures().values.values()
    assert sorted(values) == [(1.0, 0.0), (3.0, 4.5), (4.5, 0.0)]
    assert {type(number) for pair in values for number in pair} == {float}, "the page of metrics shows their repr"


@pytest.mark.parametrize("name", ["", "Rows", "a-b", "1a", "a\nb", "a{", "ä"])
def test_names_that_prometheus_does_not_have_are_refused(name):
    with pytest.raises(ConnectError, match="is not a valid metric name"):
        PluginMetrics().counter(name)


@pytest.mark.parametrize("label", ["connector", "task", "worker", "le", "__name__", "a-b", ""])
def test_reserved_or_invalid_labels_are_refused(label):
    with pytest.raises(ConnectError, match="is not a valid label"):
        PluginMetrics().gauge("x", **{label: "1"})


def test_a_plugins_metrics_use_limited_memory(caplog):
    metrics = PluginMetrics()
    for number in range(MAX_SERIES + 5):
        metrics.counter("x", number=number).inc()
    metrics.counter("x", number=0).inc()
    found = metrics.figures()
    assert (len(found.values), found.dropped) == (MAX_SERIES, 5)
    assert len(caplog.records) == 1
    metrics.counter("x", number=0).inc(math.inf)
    assert metrics.figures().values[Series("x", "counter", (("number", "0"),))] == (2, 0)
    with pytest.raises(ConnectError, match="cannot decrease"):
        metrics.counter("x").inc(-1)


def test_descriptions_of_a_plugins_metrics_use_limited_memory():
    """A plugin may put an id into the name of a metric."""
    task = PluginMetrics()
    for split in range(3):
        metrics = PluginMetrics()
        for number in range(MAX_SERIES):
            metrics.counter(f"rows_{split}_{number}", "The rows of a table.").inc()
        task.merge(metrics.figures())
    assert len(task.figures().helps) == MAX_SERIES
    metrics.replace(Figures({}, {f"name_{number}": "A text." for number in range(MAX_SERIES + 5)}))
    assert len(metrics.figures().helps) == MAX_SERIES


def test_a_task_counts_records_phases_and_commits():
    task = TaskMetrics("sink")
    task.submitted(10)
    assert task.active == 10
    task.add_splits([
        SplitFigures(6, 60, 5, 70, {"fetch": 0.1, "write": 0.2}), SplitFigures(4, 40, 4, 50, {"write": 0.3}),
    ])
    task.committed(0.25)
    assert (task.records, task.bytes) == ({"read": 10, "write": 9}, {"read": 100, "write": 120})
    assert task.phases == {"fetch": (1, 0.1), "write": (1, 0.5), "commit": (1, 0.25)}
    assert task.active == 0
    assert task.commits == {"done": 1, "failed": 0, "skipped": 0}
    assert task.last["commit"] is not None
    with pytest.raises(DataError), task.counting_failures("task"), phase("convert"):
        raise DataError("no number")
    assert (task.errors, task.failures, task.retries) == ({"convert": 1}, 1, 0)


def test_ratios_of_running_and_paused_time_are_measured():
    task = TaskMetrics()
    assert task.ratios(task.started + 10) == (0, 0)
    task.running(paused=False)
    ran, paused = task.ratios(task.started + 100)
    assert ran > 0.99
    assert paused == 0
    task.running(paused=True)
    ran, paused = task.ratios(task.started + 1000)
    assert ran < 0.01
    assert paused > 0.99
    task.stopped()
    assert task.ratios(task.started + 1000)[1] < 0.01


def test_the_wait_for_spark_is_the_time_without_running_splits():
    future: Future[list[int]] = Future()
    flight = Flight(future)
    threading.Event().wait(0.02)
    future.set_result([])
    assert 0.02 <= flight.waited(0.0) < 5
    assert flight.waited(10.0) == 0


def test_values_that_are_taken_start_again_and_keep_their_description() -> None:
    metrics, total = PluginMetrics(), PluginMetrics()
    counter = metrics.counter("orders", "Orders that were seen.")
    assert metrics.take() is None
    for _ in range(2):
        counter.inc()
        taken = metrics.take()
        assert taken is not None
        total.merge(taken)
    assert metrics.take() is None
    assert list(total.figures().values.values()) == [(2.0, 0.0)]
    assert total.figures().helps == {"orders": "Orders that were seen."}
