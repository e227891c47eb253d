"""The registry of the worker's metrics, which its parts report to and /metrics reads.

Series are built on request, so those of a removed connector, task or partition disappear with it. Nothing here waits
for an actor, and nothing in the data path takes a lock.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import cache
from typing import Any, Final

from actors.herder.state import HerderState
from actors.instances.scaler import Scaled
from heeler.worker.metrics import connect_metrics, heeler_metrics
from heeler.worker.metrics.observed import Observed
from heeler.worker.metrics.rows import ConnectorRow, Facts, TaskPlugins, TaskRow, classes_of, stages_of
from heeler.worker.metrics.text import Kept, Page, labels
from spark_tasks.kafka.client_metrics import Figure
from spark_tasks.metrics.engine import EngineFigures
from spark_tasks.metrics.plugins import Figures, PluginMetrics
from spark_tasks.metrics.task import TaskMetrics
from storage.config.state import ClusterConfigState
from storage.ids import Config, ConnectorName, ConnectorTaskId, ItemId, State, WorkerId
from storage.status.state import StatusState

JAVA: Final = "java"
OWN: Final = "heeler"
Queues = Callable[[], tuple[Mapping[str, int], Mapping[ItemId, int]]]


class WorkerMetrics:
    """All metrics of one worker. `page` may be called on any thread. `worker`: the worker's properties."""

    def __init__(
        self, worker: Mapping[str, str], configs: Callable[[], ClusterConfigState], statuses: Callable[[], StatusState],
        plugins: Facts, version: str,
    ) -> None:
        self._worker = worker
        self._configs = configs
        self._statuses = statuses
        self._plugins = plugins
        self._version = version
        self._tasks: dict[ConnectorTaskId, TaskMetrics] = {}
        self._connectors: dict[ConnectorName, PluginMetrics] = {}
        self._seen = Observed()
        self._kept = Kept()
        self._plugins_of_tasks: dict[ConnectorTaskId, tuple[object, TaskPlugins]] = {}
        self.worker_id = WorkerId("")
        self.stalled: Callable[[], Collection[ItemId]] = frozenset
        self.scaling: Callable[[], Mapping[ConnectorName, Scaled]] = dict
        self.queues: Queues = lambda: ({}, {})
        self.engine: Callable[[], EngineFigures] = EngineFigures
        self.client: Callable[[], Iterable[Figure]] = tuple
        self.client_id = ""
        self.app_info: Mapping[str, str] = {}
        self.providers: Callable[[], Iterable[Figures]] = tuple
        self._started = time.time()

    # ------------------------------------------------------------ for the parts of the worker
    def task(self, task: ConnectorTaskId) -> TaskMetrics:
        """New metrics for a task that is being started."""
        metrics = self._tasks[task] = TaskMetrics()
        return metrics

    def connector(self, connector: ConnectorName) -> PluginMetrics:
        """New metrics for a connector that is being started."""
        metrics = self._connectors[connector] = PluginMetrics()
        return metrics

    def follow(self, state: HerderState) -> None:
        """Takes the herder's state after each of its steps. Called by its thread."""
        self._seen.follow(state, time.monotonic())
        for item in state.changed:
            if item in state.instances:
                continue
            if isinstance(item, ConnectorTaskId):
                self._tasks.pop(item, None)
            else:
                self._connectors.pop(item, None)

    # ------------------------------------------------------------ for readers
    def page(self, names: Collection[str] = (JAVA, OWN)) -> str:
        """All metrics in Prometheus' text format; `names`: Kafka Connect's names, heeler's, or both."""
        page = Page(self._kept)
        worker_labels = labels({"worker": self.worker_id})
        core, inboxes = self.queues()
        tasks = self._task_rows(inboxes)
        connectors = self._connector_rows(tasks, inboxes)
        if JAVA in names:
            connect_metrics.worker(page, self._seen, worker_labels, time.monotonic(), self.client_id)
            connect_metrics.client(page, self.client(), worker_labels, self.client_id)
            connect_metrics.app_info(page, self.app_info, self._started, worker_labels, self.client_id)
            connect_metrics.connectors(page, connectors)
            connect_metrics.tasks(page, tasks)
        if OWN not in names:
            return page.text()
        heeler_metrics.worker(page, self._seen, worker_labels, self._version)
        heeler_metrics.connectors(page, connectors)
        heeler_metrics.tasks(page, tasks)
        heeler_metrics.scaling(page, connectors, self.scaling())
        heeler_metrics.stalled(page, tasks, self.stalled())
        heeler_metrics.queues(page, core, worker_labels, [*connectors, *tasks])
        heeler_metrics.spark(page, self.engine(), worker_labels)
        of_providers = [(worker_labels, figures) for figures in self.providers()]
        heeler_metrics.plugins(page, [*of_providers, *_plugins(connectors, tasks)])
        return page.text(_process())

    def _task_rows(self, inboxes: Mapping[ItemId, int]) -> list[TaskRow]:
        now, config, statuses = time.monotonic(), self._configs(), self._statuses()
        rows = []
        known = self._plugins.known()  # plugins that were not known at the last scrape may be known now
        plugins_by_task: dict[ConnectorTaskId, tuple[object, TaskPlugins]] = {}
        for name, found in statuses.tasks.items():
            connector, of_connector = config.connector_configs.get(name), statuses.connectors.get(name)
            version = of_connector.version if of_connector is not None else None
            for number, status in sorted(found.items()):
                if status.worker_id != self.worker_id:
                    continue
                task = ConnectorTaskId(name, number)
                # A task whose last status here is UNASSIGNED may run elsewhere by now, or nowhere.
                if status.state is State.UNASSIGNED and task not in self._seen.instances:
                    continue
                source = (connector, config.task_configs.get(task), version, status.version)
                plugins = self._plugins_of_tasks.get(task)
                if plugins is None or plugins[0] != (known, source):
                    plugins = (known, source), self._plugins_of(*source)
                plugins_by_task[task] = plugins
                rows.append(TaskRow(task, self.worker_id, status.state, now, self._tasks.get(task),
                                    self._seen.restarts.get(task, {}), inboxes.get(task), plugins[1],
                                    automatic=status.restarts))
        self._plugins_of_tasks = plugins_by_task
        return rows

    def _plugins_of(self, connector: Config | None, task: Config | None, version: str | None,
                    task_version: str | None) -> TaskPlugins:
        """The plugins of a task. `version`, `task_version`: those that the connector and the task have reported."""
        own = {"connector_version": version, "task_class": (task or {}).get("task.class"), "task_version": task_version}
        found = classes_of(self._worker, connector or {}, self._plugins)
        return TaskPlugins({**found, **{key: value for key, value in own.items() if value}},
                           tuple(stages_of(connector or {}, self._plugins)))

    def _connector_rows(self, tasks: Iterable[TaskRow], inboxes: Mapping[ItemId, int]) -> list[ConnectorRow]:
        by_name: dict[ConnectorName, list[State]] = {}
        for row in tasks:
            by_name.setdefault(row.id.connector, []).append(row.state)
        statuses, configs, rows = self._statuses().connectors, self._configs().connector_configs, []
        for name in sorted({*statuses, *by_name}):
            status = statuses.get(name)
            runs_here = status is not None and status.worker_id == self.worker_id and (
                status.state is not State.UNASSIGNED or name in self._seen.instances)
            if not runs_here and name not in by_name:
                continue
            config, plugins = configs.get(name), self._connectors.get(name)
            rows.append(ConnectorRow(
                name, self.worker_id, status.state if status is not None and runs_here else None,
                self._plugins.connector_type(config), (config or {}).get("connector.class", ""),
                (status.version if status is not None else None) or "unknown", by_name.get(name, []),
                self._seen.restarts.get(name, {}), inboxes.get(name),
                plugins.figures() if plugins is not None else None,
                automatic=status.restarts if status is not None and runs_here else None))
        return rows


def _plugins(connectors: Iterable[ConnectorRow], tasks: Iterable[TaskRow]) -> Iterable[tuple[str, Figures]]:
    for row in connectors:
        if row.plugins is not None:
            yield row.labels, row.plugins
    for task in tasks:
        if task.metrics is not None:
            yield task.labels, task.metrics.plugins.figures()


@cache
def _collectors() -> Callable[[], bytes]:
    # Imported on first use: the import takes a tenth of a second, which would delay the start of REST.
    from prometheus_client import CollectorRegistry, GCCollector, ProcessCollector, generate_latest  # noqa: PLC0415

    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    GCCollector(registry=registry)
    return lambda: generate_latest(registry)


def _process() -> str:
    """Memory, CPU time, open files and garbage collections of the worker's process."""
    return _collectors()().decode()


def queue_length(ref: Any) -> int:
    """The number of messages in a Pykka actor's inbox."""
    return int(ref.actor_inbox.qsize())
