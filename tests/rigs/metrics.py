"""A worker's metrics without a worker: the values from which they are created, set by hand. What promtool says."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import replace

from actors.herder.instance import Instance
from actors.herder.state import HerderSettings, HerderState
from actors.messages.correlation_ids import Epoch
from heeler.worker.metrics.registry import WorkerMetrics
from spark_tasks.metrics.task import SplitFigures, TaskMetrics
from spark_tasks.plugins import Kind
from storage.config.state import ClusterConfigState
from storage.ids import ConnectorName, ConnectorTaskId, State, TargetState, WorkerId
from storage.status.state import Restarts, Status, StatusState

ME, OTHER = WorkerId("me:8083"), WorkerId("other:8083")
STATE = HerderState(HerderSettings(ME, "group"))
UNIT = re.compile(
    r"kafka_connect_\w+_(ms|time_ns_(avg|total)) metric names should not contain abbreviated units")
"""What promtool says about some of Kafka Connect's names."""


def promtool(page: str) -> list[str]:
    """The complaints of `promtool check metrics`."""
    tool = shutil.which("promtool")
    assert tool, "promtool is missing: apt-get install prometheus"
    done = subprocess.run([tool, "check", "metrics"], input=page, capture_output=True, text=True, timeout=30,
                          check=False)
    assert done.returncode in (0, 3), done.stderr
    return done.stderr.splitlines()


class Cluster:
    """A worker's metrics, and the values from which they are created."""

    def __init__(self) -> None:
        self.config = ClusterConfigState()
        self.statuses = StatusState()
        self.instances: dict = {}
        self.kind, self.known_facts = "source", 0
        self.metrics = WorkerMetrics({"key.converter": "K"}, lambda: self.config, lambda: self.statuses,
                                     self, "0.1.0")
        self.metrics.worker_id = ME
        self.state = STATE
        self.epochs = iter(range(1, 1_000_000))

    def connector_type(self, _: object) -> str:
        return self.kind

    def version(self, kind: Kind, name: str, wanted: str | None) -> str:
        return f"{kind.name} {name} {wanted}"

    def known(self) -> int:
        return self.known_facts

    def has(self, name: str, *tasks: State, state: State = State.RUNNING, worker: WorkerId = ME,
            restarts: Sequence[Restarts | None] = ()) -> None:
        """Add a connector with tasks in these states.

        `restarts`: of each task; the first one's also of the connector.
        """
        connector = ConnectorName(name)
        self.config = replace(
            self.config, connector_configs={**self.config.connector_configs, connector: {
                "connector.class": "C", "value.converter": "V", "value.converter.plugin.version": "[1,2)",
                "transforms": "a, b", "transforms.a.type": "A", "transforms.b.type": "B", "transforms.b.predicate": "p",
                "transforms.b.plugin.version": "3", "predicates": "p,q", "predicates.p.type": "P",
                "predicates.q.type": "Q"}},
            target_states={**self.config.target_states, connector: TargetState.STARTED},
            task_configs={**self.config.task_configs, **{
                ConnectorTaskId(connector, n): {"task.class": "T"} for n in range(len(tasks))}})
        restarts = restarts or [None] * (len(tasks) + 1)
        found = {n: Status(ConnectorTaskId(connector, n), task, worker, 1, version="8", restarts=restarts[n])
                 for n, task in enumerate(tasks)}
        reported = Status(connector, state, worker, 1, version="7", restarts=restarts[0])
        self.statuses = replace(
            self.statuses, tasks={**self.statuses.tasks, connector: found},
            connectors={**self.statuses.connectors, connector: reported})
        if worker == ME:
            for item, at in ((connector, state), *((s.id, s.state) for s in found.values())):
                self.instances[item] = Instance(Epoch(next(self.epochs)), at)
        self.follow()

    def follow(self, **more: object) -> None:
        changed = frozenset((*self.state.instances, *self.instances))
        self.state = replace(self.state, instances=dict(self.instances), store=self.config, changed=changed, **more)
        self.metrics.follow(self.state)

    def drop(self, name: str) -> None:
        connector = ConnectorName(name)
        self.instances = {item: instance for item, instance in self.instances.items()
                      if item != connector and getattr(item, "connector", None) != connector}
        self.config = replace(self.config, connector_configs={}, target_states={})
        self.statuses = StatusState()
        self.follow()


def busy(cluster: Cluster, name: str, number: int, kind: str) -> TaskMetrics:
    """Add a task that has done a little of everything."""
    task = cluster.metrics.task(ConnectorTaskId(ConnectorName(name), number))
    task.kind = kind
    task.running(paused=False)
    task.add_phase("plan", 0.1)
    task.add_splits([SplitFigures(10, 100, 9, 90, {"fetch": 0.1, "read": 0.2, "convert": 0.1, "write": 0.5})])
    task.committed(0.1)
    task.transaction_ended()
    task.failed(ValueError("x"), "commit", again=True)
    task.lags = {("topic", 0): 5, ("topic", 1): 7} if kind == "sink" else {}
    task.plugins.counter("rows_skipped", "Rows.", table="t").inc(2)
    task.plugins.summary("call_seconds").observe(0.5)
    return task
