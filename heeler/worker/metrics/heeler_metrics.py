"""heeler's own metrics, in Prometheus' base units."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import lru_cache

from actors.instances.scaler import Scaled
from heeler.worker.metrics.observed import CAUSES, Observed
from heeler.worker.metrics.rows import STATES, ConnectorRow, TaskRow
from heeler.worker.metrics.text import Kind, Page, labels
from spark_tasks.metrics.engine import EngineFigures, memory_of
from spark_tasks.metrics.plugins import Figures
from spark_tasks.metrics.task import TaskMetrics
from storage.ids import ConnectorName, ItemId

_DROPPED = "heeler_plugin_dropped_total"
_AFTER_READING = ("convert", "transform", "write", "commit", "task")
_NO_ERRORS: Mapping[str, Mapping[str, int]] = {
    "": {}, "source": dict.fromkeys(("read", *_AFTER_READING), 0),
    "sink": dict.fromkeys(("fetch", "decode", *_AFTER_READING), 0),
}  # fmt: skip
_NUMBERS = ", ".join(f"{number} {state.value.lower()}" for state, number in STATES.items())


def connectors(page: Page, rows: Sequence[ConnectorRow]) -> None:
    """Metrics of connectors."""
    page.add("heeler_connector_state", "gauge", f"The connector's state: {_NUMBERS}.",
             [(row.labels, STATES[row.state]) for row in rows if row.state is not None])
    _restarts(page, "connector", rows)
    _automatic_restarts(page, "connector", rows)


def tasks(page: Page, rows: Sequence[TaskRow]) -> None:
    """Metrics of tasks."""
    page.add("heeler_task_state", "gauge", f"The task's state: {_NUMBERS}. Includes tasks that failed to start.",
             [(row.labels, STATES[row.state]) for row in rows])
    _restarts(page, "task", rows)
    _automatic_restarts(page, "task", rows)
    with_metrics: list[tuple[TaskRow, TaskMetrics]] = [(row, row.metrics) for row in rows if row.metrics is not None]
    places = [row.labels for row, _ in with_metrics]
    by_stage = page.kept.get("stages", places, lambda: [
        f'{place},stage="{stage}"' for place in places for stage in ("read", "write")])
    for what in ("records", "bytes"):
        page.column(f"heeler_task_{what}_total", "counter", f"{what.capitalize()} by stage: before the transforms "
                    "(read) and after them (write).", by_stage,
                    [count for _, task in with_metrics
                     for counts in (task.records if what == "records" else task.bytes,)
                     for count in (counts["read"], counts["write"])])
    _errors(page, with_metrics)
    page.column("heeler_task_retries_total", "counter", "Batches that were retried after an error.", places,
                [task.retries for _, task in with_metrics])
    for stage in ("read", "write", "commit", "error"):
        ages = [(row.labels, row.now - at if row.now > at else 0.0) for row, task in with_metrics
                if (at := task.last[stage]) is not None]
        page.column(f"heeler_task_last_{stage}_age_seconds", "gauge", f"Time since the last {stage}; no series before "
                    "it.", [place for place, _ in ages], [age for _, age in ages])
    _phases(page, with_metrics)
    lags = [(row.labels, task.lags) for row, task in with_metrics if task.lags]
    by_partition = page.kept.get("partitions", [(place, *found) for place, found in lags], lambda: [
        f"{place},{labels({'topic': topic, 'partition': partition})}" for place, found in lags
        for topic, partition in found])
    page.column("heeler_sink_lag_records", "gauge", "How far a sink task is behind the end of a partition, in offsets.",
                by_partition, [lag for _, found in lags for lag in found.values()])


def _phases(page: Page, with_metrics: Sequence[tuple[TaskRow, TaskMetrics]]) -> None:
    rows = [(row.labels, tuple(task.phases), task.phases) for row, task in with_metrics]  # a task may add one meanwhile
    places = page.kept.get("phases", [(place, phases) for place, phases, _ in rows], lambda: [
        f'{place},phase="{phase}"' for place, phases, _ in rows for phase in phases])
    page.column_of_summary("heeler_task_phase_seconds", "Number of batches that went through a phase, and the time "
                           "spent in it. wait: for Spark. The times of concurrent splits add up.", places,
                           [figure for _, phases, task in rows for phase in phases
                            for count, seconds in (task[phase],) for figure in (seconds, count)])


def scaling(page: Page, rows: Sequence[ConnectorRow], found: Mapping[ConnectorName, Scaled]) -> None:
    """Metrics of connectors whose number of tasks follows their lag (tasks.auto)."""
    scaled = [(row, found[row.name]) for row in rows if row.name in found]
    page.add("heeler_connector_tasks_wanted", "gauge", "Number of tasks that the lag requires (tasks.auto).",
             [(row.labels, figures.tasks) for row, figures in scaled])
    page.add("heeler_connector_lag_records", "gauge", "Total lag of a sink with tasks.auto, in records.",
             [(row.labels, figures.lag) for row, figures in scaled if figures.lag is not None])


def stalled(page: Page, rows: Sequence[TaskRow], found: Collection[ItemId]) -> None:
    """Metrics of the watchdog."""
    page.add("heeler_task_stalled", "gauge", "1 while the task makes no progress for task.progress.timeout.ms.",
             [(row.labels, int(row.id in found)) for row in rows])


def _restarts(page: Page, kind: str, rows: Sequence[TaskRow] | Sequence[ConnectorRow]) -> None:
    """A series for each cause from the start: Prometheus cannot see the first increase of one that begins with 1."""
    places = page.kept.get(f"{kind} restarts", [row.labels for row in rows], lambda: [
        f'{row.labels},cause="{cause}"' for row in rows for cause in CAUSES])
    page.column(f"heeler_{kind}_restarts_total", "counter", f"Restarts of a {kind}, by cause.", places,
                [row.restarts.get(cause, 0) for row in rows for cause in CAUSES])


def _errors(page: Page, with_metrics: Sequence[tuple[TaskRow, TaskMetrics]]) -> None:
    """A series for each stage from the start, as for restarts, and for what else has failed."""
    rows = [(row.labels, {**_NO_ERRORS[task.kind], **task.errors}) for row, task in with_metrics]
    places = page.kept.get("errors", [(place, tuple(errors)) for place, errors in rows], lambda: [
        f'{place},stage="{stage}"' for place, errors in rows for stage in errors])
    page.column("heeler_task_errors_total", "counter", "Errors of batches by stage.", places,
                [count for _, errors in rows for count in errors.values()])


def _automatic_restarts(page: Page, kind: str, rows: Iterable[TaskRow | ConnectorRow]) -> None:
    planned = [(row.labels, row.automatic) for row in rows if row.automatic is not None]
    page.add(f"heeler_{kind}_failure_permanent", "gauge", f"1 while the {kind} stays FAILED despite "
             "errors.restart.policy, because a restart cannot fix the failure.",
             [(place, int(restarts.permanent)) for place, restarts in planned])
    page.add(f"heeler_{kind}_next_restart_timestamp_seconds", "gauge", f"When the {kind} will be restarted "
             "(errors.restart.policy), in seconds since 1970; no series if no restart is planned.",
             [(place, restarts.next_ms / 1000) for place, restarts in planned if restarts.next_ms is not None])


def worker(page: Page, seen: Observed, where: str, version: str) -> None:
    """Metrics of the worker and its group."""
    page.add("heeler_worker_info", "gauge", "heeler's version, as a label.",
             [(f"{where},{labels({'version': version})}", 1)])
    rebalances = seen.rebalances
    page.add_summary("heeler_rebalance_seconds", "Rebalances that this worker has completed, and their duration.",
                     [(where, rebalances.count, rebalances.seconds)])
    page.add("heeler_rebalancing", "gauge", "1 while this worker rebalances.",
             [(where, int(rebalances.begun is not None))])


def queues(page: Page, core: Mapping[str, int], where: str, rows: Iterable[TaskRow | ConnectorRow]) -> None:
    """Messages that wait for an actor."""
    page.add("heeler_actor_queue_length", "gauge", "Messages that wait for an actor of the worker.",
             [(f'{where},actor="{name}"', length) for name, length in core.items()])
    for kind in (ConnectorRow, TaskRow):
        name = "connector" if kind is ConnectorRow else "task"
        page.add(f"heeler_{name}_queue_length", "gauge", f"Messages that wait for the actor of a {name}.",
                 [(row.labels, row.queue) for row in rows if isinstance(row, kind) and row.queue is not None])


def spark(page: Page, figures: EngineFigures, where: str) -> None:
    """Metrics of the worker's Spark."""
    for name, text, value in (
        ("up", "1 while Spark runs.", int(figures.up)),
        ("slots", "Splits that Spark can run at the same time.", figures.slots),
        ("waiting_batches", "Batches that are waiting for Spark.", figures.waiting),
        ("running_batches", "Batches that are running.", figures.running),
    ):
        page.add(f"heeler_spark_{name}", "gauge", text, [(where, value)])
    page.add("heeler_spark_batches_total", "counter", "Batches that were submitted to Spark.",
             [(where, figures.batches)])
    if figures.pid is not None:
        page.add("heeler_spark_memory_bytes", "gauge", "Memory of Spark's processes on this machine.",
                 [(f'{where},process="{kind}"', size) for kind, size in memory_of(figures.pid).items()])


def plugins(page: Page, found: Iterable[tuple[str, Figures]]) -> None:
    """Metrics of plugins, with the labels of their connector or task. If two metrics of different kinds have the same
    name, also with the _sum or _count of a summary, only the first is shown.
    """
    dropped = []
    kinds: dict[str, Kind] = {}
    taken: set[str] = set()
    texts: dict[str, str] = {}
    samples: dict[str, list[tuple[str, float, float]]] = {}
    for item_labels, figures in found:
        if figures.dropped:
            dropped.append((item_labels, figures.dropped))
        for series, (first, second) in figures.values.items():
            name = f"heeler_plugin_{series.name}_total" if series.kind == "counter" else f"heeler_plugin_{series.name}"
            if name not in kinds:
                names = {name, *((f"{name}_sum", f"{name}_count") if series.kind == "summary" else ())}
                if not taken.isdisjoint(names):
                    continue
                kinds[name] = series.kind
                taken |= names
            if kinds[name] != series.kind:
                continue
            if name not in texts:
                texts[name], samples[name] = figures.helps.get(series.name) or "A plugin's own metric.", []
            all_labels = f"{item_labels},{_labels(series.labels)}" if series.labels else item_labels
            samples[name].append((all_labels, first, second))
    for name, some in samples.items():
        kind = kinds[name]
        if kind == "summary":
            page.add_summary(name, texts[name], some)
        else:
            page.add(name, kind, texts[name], [(all_labels, first) for all_labels, first, _ in some])
    if _DROPPED not in taken:
        page.add(_DROPPED, "counter", "Values that were dropped because a plugin has too many series.", dropped)


@lru_cache(20_000)
def _labels(pairs: tuple[tuple[str, str], ...]) -> str:
    return labels(dict(pairs))
