"""Kafka Connect's own metrics under the names that its dashboards use: `kafka_connect_<group>_<attribute>`.

Times are in milliseconds, as the names say; those of heeler's own metrics (heeler_metrics.py) in seconds. Texts in
Kafka Connect's metrics are labels of a series with the value 1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from heeler.worker.metrics.observed import Observed
from heeler.worker.metrics.rows import CLASSES, ConnectorRow, TaskRow
from heeler.worker.metrics.text import Kind, Page, escaped, labels
from spark_tasks.kafka.client_metrics import Figure
from spark_tasks.metrics.task import TaskMetrics
from storage.ids import State

PREFIX = "kafka_connect_"
_NAN = float("nan")
_WORDS = {state: state.value.lower() for state in State}


@dataclass(frozen=True)
class _Figure:
    """One attribute. `only`: "source" or "sink" if only such tasks have it; empty for all."""

    group: str
    attribute: str
    text: str
    value: Callable[[TaskMetrics, float], float]
    only: str = ""

    @cached_property
    def name(self) -> str:
        return name_of(self.group, self.attribute)

    @cached_property
    def kind(self) -> Kind:
        return kind_of(self.name)


def name_of(group: str, attribute: str) -> str:
    """The attribute's name in Prometheus."""
    return f"{PREFIX}{group}_{attribute}".replace("-", "_")


def kind_of(name: str) -> Kind:
    """Totals are counters. A name that ends in _count belongs to a histogram, so it is declared without a type."""
    return "counter" if name.endswith("_total") else "untyped" if name.endswith("_count") else "gauge"


def _percent(part: int, all_: int) -> float:
    return part / all_ if all_ else 0.0


def _commits(task: TaskMetrics, how: str) -> float:
    """The fraction of the commits that ended like this. As in Kafka Connect, skipped ones are not among them."""
    return _percent(task.commits[how], task.commits["done"] + task.commits["failed"])


_TASK, _SOURCE, _SINK = "connector-task-metrics", "source-task-metrics", "sink-task-metrics"
_ERRORS = "task-error-metrics"
FIGURES: Sequence[_Figure] = (
    _Figure(_TASK, "offset-commit-max-time-ms", "Longest recent offset commit.",
            lambda t, now: 1000 * t.commit_seconds.maximum(now)),
    _Figure(_TASK, "offset-commit-avg-time-ms", "Average time of recent offset commits.",
            lambda t, now: 1000 * t.commit_seconds.average(now)),
    _Figure(_TASK, "batch-size-max", "Number of records in the largest recent batch.",
            lambda t, now: t.batch_sizes.maximum(now)),
    _Figure(_TASK, "batch-size-avg", "Average number of records in recent batches.",
            lambda t, now: t.batch_sizes.average(now)),
    _Figure(_TASK, "offset-commit-failure-percentage", "Fraction of the offset commits that failed, 0 to 1.",
            lambda t, _: _commits(t, "failed")),
    _Figure(_TASK, "offset-commit-success-percentage", "Fraction of the offset commits that succeeded, 0 to 1.",
            lambda t, _: _commits(t, "done")),
    _Figure(_SOURCE, "source-record-poll-rate", "Records read per second, before transforms.",
            lambda t, now: t.record_rates["read"].rate(now), "source"),
    _Figure(_SOURCE, "source-record-poll-total", "Records read, before transforms.",
            lambda t, _: t.records["read"], "source"),
    _Figure(_SOURCE, "source-record-write-rate", "Records written to Kafka per second.",
            lambda t, now: t.record_rates["write"].rate(now), "source"),
    _Figure(_SOURCE, "source-record-write-total", "Records written to Kafka.",
            lambda t, _: t.records["write"], "source"),
    _Figure(_SOURCE, "poll-batch-max-time-ms", "Longest recent time to read a batch.",
            lambda t, now: 1000 * t.batch_seconds.maximum(now), "source"),
    _Figure(_SOURCE, "poll-batch-avg-time-ms", "Average recent time to read a batch.",
            lambda t, now: 1000 * t.batch_seconds.average(now), "source"),
    _Figure(_SOURCE, "source-record-active-count", "Records that have been read but not committed yet.",
            lambda t, _: t.active, "source"),
    _Figure(_SOURCE, "source-record-active-count-max", "Largest recent number of uncommitted records.",
            lambda t, now: t.active_counts.maximum(now), "source"),
    _Figure(_SOURCE, "source-record-active-count-avg", "Average recent number of uncommitted records.",
            lambda t, now: t.active_counts.average(now), "source"),
    _Figure(_SOURCE, "transaction-size-min", "Number of records in the smallest recent transaction.",
            lambda t, now: t.transactions.minimum(now), "source"),
    _Figure(_SOURCE, "transaction-size-max", "Number of records in the largest recent transaction.",
            lambda t, now: t.transactions.maximum(now), "source"),
    _Figure(_SOURCE, "transaction-size-avg", "Average number of records in recent transactions.",
            lambda t, now: t.transactions.average(now), "source"),
    _Figure(_SINK, "sink-record-read-rate", "Records read from Kafka per second.",
            lambda t, now: t.record_rates["read"].rate(now), "sink"),
    _Figure(_SINK, "sink-record-read-total", "Records read from Kafka.", lambda t, _: t.records["read"], "sink"),
    _Figure(_SINK, "sink-record-send-rate", "Records passed to the sink per second, after transforms.",
            lambda t, now: t.record_rates["write"].rate(now), "sink"),
    _Figure(_SINK, "sink-record-send-total", "Records passed to the sink, after transforms.",
            lambda t, _: t.records["write"], "sink"),
    _Figure(_SINK, "sink-record-lag-max", "The largest lag of a partition, in offsets.",
            lambda t, _: max(t.lags.values(), default=0), "sink"),
    _Figure(_SINK, "partition-count", "Topic partitions assigned to the task.", lambda t, _: len(t.lags), "sink"),
    _Figure(_SINK, "offset-commit-seq-no", "The sequence number of the last offset commit.",
            lambda t, _: sum(t.commits.values()), "sink"),
    _Figure(_SINK, "offset-commit-completion-rate", "Successful offset commits per second.",
            lambda t, now: t.commit_rates["done"].rate(now), "sink"),
    _Figure(_SINK, "offset-commit-completion-total", "Successful offset commits.",
            lambda t, _: t.commits["done"], "sink"),
    _Figure(_SINK, "offset-commit-skip-rate", "Offset commits per second that were too late for the group.",
            lambda t, now: t.commit_rates["skipped"].rate(now), "sink"),
    _Figure(_SINK, "offset-commit-skip-total", "Offset commits that were too late for the group.",
            lambda t, _: t.commits["skipped"], "sink"),
    _Figure(_SINK, "put-batch-max-time-ms", "Longest recent time to write a batch.",
            lambda t, now: 1000 * t.batch_seconds.maximum(now), "sink"),
    _Figure(_SINK, "put-batch-avg-time-ms", "Average recent time to write a batch.",
            lambda t, now: 1000 * t.batch_seconds.average(now), "sink"),
    _Figure(_SINK, "sink-record-active-count", "Records that have been read but not committed yet.",
            lambda t, _: t.active, "sink"),
    _Figure(_SINK, "sink-record-active-count-max", "Largest recent number of uncommitted records.",
            lambda t, now: t.active_counts.maximum(now), "sink"),
    _Figure(_SINK, "sink-record-active-count-avg", "Average recent number of uncommitted records.",
            lambda t, now: t.active_counts.average(now), "sink"),
    _Figure(_ERRORS, "total-record-failures", "Records that failed: skipped ones, and errors that failed the task.",
            lambda t, _: t.skipped + t.failures),
    _Figure(_ERRORS, "total-record-errors", "Errors, including those that were retried.",
            lambda t, _: sum(t.errors.values())),
    _Figure(_ERRORS, "total-records-skipped", "Records skipped because of errors (errors.tolerance=all).",
            lambda t, _: t.skipped),
    _Figure(_ERRORS, "total-retries", "Batches that were retried.", lambda t, _: t.retries),
    _Figure(_ERRORS, "total-errors-logged", "Errors that were logged.", lambda t, _: t.logged),
    _Figure(_ERRORS, "deadletterqueue-produce-requests", "Records that were sent to the dead letter queue.",
            lambda t, _: t.letters + t.lost_letters),
    _Figure(_ERRORS, "deadletterqueue-produce-failures", "Records that could not be written to the dead letter queue.",
            lambda t, _: t.lost_letters),
    _Figure(_ERRORS, "last-error-timestamp", "When the last error occurred, in milliseconds since 1970; 0: never.",
            lambda t, _: t.last_error_ms),
)


def tasks(page: Page, rows: Sequence[TaskRow]) -> None:
    """All of Kafka Connect's metrics of tasks."""
    _label_series(page, name_of(_TASK, "status"), "The task's state, as a label.",
          [f'{row.labels},status="{_WORDS[row.state]}"' for row in rows])
    plugins = page.kept.get(f"{_TASK}-plugins", [(row.labels, row.plugins) for row in rows], lambda: _plugins(rows))
    for (group, attribute), about in plugins.items():
        owner, _, what = attribute.replace("_", " ").rpartition(" ")
        _label_series(page, name_of(group, attribute), f"The {owner}'s {what}, as a label.", about)
    with_metrics = [(row, row.metrics) for row in rows if row.metrics is not None]
    places = [row.labels for row, _ in with_metrics]
    page.column(name_of(_TASK, "running-ratio"), "gauge", "Fraction of its lifetime that the task was running.", places,
                [row.ratios[0] for row, _ in with_metrics])
    page.column(name_of(_TASK, "pause-ratio"), "gauge", "Fraction of its lifetime that the task was paused.", places,
                [row.ratios[1] for row, _ in with_metrics])
    of_kind = {"": (places, [(task, row.now) for row, task in with_metrics])}
    for kind in ("source", "sink"):
        selected = [(row, task) for row, task in with_metrics if task.kind == kind]
        of_kind[kind] = [row.labels for row, _ in selected], [(task, row.now) for row, task in selected]
    for figure in FIGURES:
        value = figure.value
        places, tasks_ = of_kind[figure.only]
        page.column(figure.name, figure.kind, figure.text, places, [value(task, now) for task, now in tasks_])


def _plugins(rows: Sequence[TaskRow]) -> dict[tuple[str, str], list[str]]:
    """The labels of the series that name plugins of tasks, by group and attribute."""
    found = {(_TASK, attribute): [f'{row.labels},{attribute}="{escaped(row.plugins.classes[attribute])}"'
                                  for row in rows if attribute in row.plugins.classes] for attribute in CLASSES}
    for row in rows:
        for stage in row.plugins.stages:
            group, of_stage = f"connector-{stage.kind}-metrics", f"{row.labels},{labels({stage.kind: stage.name})}"
            for what, value in (("class", stage.class_name), ("version", stage.version)):
                if value:
                    attribute = f"{stage.kind}_{what}"
                    found.setdefault((group, attribute), []).append(f'{of_stage},{attribute}="{escaped(value)}"')
    return found


def _label_series(page: Page, name: str, text: str, labels_: Sequence[str]) -> None:
    """A metric that is a string in Java: its value is a label of each series, whose value is 1."""
    page.column(name, "gauge", text, labels_, [1] * len(labels_))


_WORKER, _APP, _COORDINATOR = "connect-worker-metrics", "app-info", "connect-coordinator-metrics"


def connectors(page: Page, rows: Sequence[ConnectorRow]) -> None:
    """Kafka Connect's metrics of connectors."""
    local_connectors = [row for row in rows if row.state is not None]
    for attribute, text, values in (
        ("status", "The connector's state", [_WORDS[row.state] if row.state else "" for row in local_connectors]),
        ("connector_type", "Source or sink", [row.kind for row in local_connectors]),
        ("connector_class", "The connector's class", [row.class_name for row in local_connectors]),
        ("connector_version", "The connector's version", [row.version for row in local_connectors]),
    ):
        _label_series(page, name_of("connector-metrics", attribute), f"{text}, as a label.",
              [f'{row.labels},{attribute}="{escaped(value)}"'
               for row, value in zip(local_connectors, values, strict=True)])
    places, words = [row.labels for row in rows], "Tasks of the connector on this worker: "
    page.column(name_of(_WORKER, "connector-total-task-count"), "untyped", f"{words}total.", places,
                [len(row.tasks) for row in rows])
    for state in (State.RUNNING, State.PAUSED, State.FAILED, State.UNASSIGNED, State.DESTROYED, State.RESTARTING):
        page.column(name_of(_WORKER, f"connector-{_WORDS[state]}-task-count"), "untyped", f"{words}{_WORDS[state]}.",
                    places, [row.tasks.count(state) for row in rows])


def worker(page: Page, seen: Observed, where: str, now: float, client_id: str) -> None:
    """Kafka Connect's metrics of the worker. `where`: its labels; `now` on the monotonic clock."""
    coordinator = f"{where},{labels({'client_id': client_id})}"

    def add(group: str, attribute: str, text: str, value: float) -> None:
        name = name_of(group, attribute)
        page.add(name, kind_of(name), text, [(coordinator if group == _COORDINATOR else where, value)])

    for kind, starts, count in (("connector", seen.connector_starts, seen.connectors),
                                ("task", seen.task_starts, seen.tasks)):
        ended = starts.succeeded + starts.failed
        add(_WORKER, f"{kind}-count", f"Number of {kind}s that this worker runs.", count)
        for what, value in (("attempts", starts.attempts), ("success", starts.succeeded), ("failure", starts.failed)):
            add(_WORKER, f"{kind}-startup-{what}-total", f"Starts of {kind}s: {what}.", value)
        for what, value in (("success", starts.succeeded), ("failure", starts.failed)):
            add(_WORKER, f"{kind}-startup-{what}-percentage", f"Fraction of {kind} starts with {what}, 0 to 1.",
                _percent(value, ended))
    group, rebalances = "connect-worker-rebalance-metrics", seen.rebalances
    add(group, "epoch", "The group's generation.", seen.generation)
    add(group, "completed-rebalances-total", "Rebalances that this worker has completed.", rebalances.count)
    add(group, "rebalancing", "1 while this worker rebalances.", int(rebalances.begun is not None))
    add(group, "rebalance-max-time-ms", "Longest duration of recent rebalances.",
        1000 * rebalances.durations.maximum(now))
    add(group, "rebalance-avg-time-ms", "Average duration of recent rebalances.",
        1000 * rebalances.durations.average(now))
    add(group, "time-since-last-rebalance-ms", "Time since the last rebalance.",
        _NAN if rebalances.ended is None else 1000 * (now - rebalances.ended))
    for attribute, text, about in (("connect_protocol", "The group's protocol", seen.protocol),
                                  ("leader_name", "The group's leader", seen.leader)):
        page.add(name_of(group, attribute), "gauge", f"{text}, as a label.",
                 [(f"{where},{labels({attribute: about})}", 1)] if about else [])
    group = _COORDINATOR
    add(group, "assigned-connectors", "Connectors assigned to this worker.", seen.assigned_connectors)
    add(group, "assigned-tasks", "Tasks assigned to this worker.", seen.assigned_tasks)
    add(group, "rebalance-total", "Rebalances that this worker has completed.", rebalances.count)
    add(group, "rebalance-rate-per-hour", "Recent rebalances per hour.", 3600 * rebalances.rate_window.rate(now))
    add(group, "rebalance-latency-avg", "Average duration of recent rebalances, in milliseconds.",
        1000 * rebalances.durations.average(now))
    add(group, "rebalance-latency-max", "Longest duration of recent rebalances, in milliseconds.",
        1000 * rebalances.durations.maximum(now))
    add(group, "rebalance-latency-total", "Total time spent rebalancing, in milliseconds.", 1000 * rebalances.seconds)
    add(group, "last-rebalance-seconds-ago", "Seconds since the last rebalance; -1: there was none.",
        -1 if rebalances.ended is None else now - rebalances.ended)


def client(page: Page, found: Iterable[Figure], where: str, client_id: str) -> None:
    """The metrics of the Kafka client of the group membership."""
    for figure in found:
        name = name_of(figure.group, figure.attribute)
        place = f"{where},{labels({'client_id': client_id, **figure.tags})}"
        page.add(name, kind_of(name), figure.text, [(place, figure.value)])


def app_info(page: Page, about: Mapping[str, str], started: float, where: str, client_id: str) -> None:
    """The worker's version and cluster, as in `GET /`, and its start: `started` in seconds since 1970."""
    place = f"{where},{labels({'client_id': client_id})}"
    for attribute, value in about.items():
        page.add(name_of(_APP, attribute), "gauge", f"The worker's {attribute}, as a label.",
                 [(f"{place},{labels({attribute.replace('-', '_'): value})}", 1)])
    page.add(name_of(_APP, "start-time-ms"), "gauge", "When the worker started, in milliseconds since 1970.",
             [(place, int(1000 * started))])
