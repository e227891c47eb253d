"""What there is to show of the worker at one moment: a row for each connector and task."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

from heeler.worker.metrics.text import labels
from spark_tasks.metrics.plugins import Figures
from spark_tasks.metrics.task import TaskMetrics
from storage.ids import Config, ConnectorName, ConnectorTaskId, State, WorkerId

STATES: Final = {
    State.UNASSIGNED: 0, State.RUNNING: 1, State.PAUSED: 2, State.STOPPED: 3, State.FAILED: 4, State.RESTARTING: 5,
    State.DESTROYED: 6,
}


@lru_cache(20_000)  # the same ones on each page
def _of_task(task: ConnectorTaskId, worker: WorkerId) -> str:
    return labels({"connector": task.connector, "task": task.task, "worker": worker})


@lru_cache(20_000)
def _of_connector(connector: ConnectorName, worker: WorkerId) -> str:
    return labels({"connector": connector, "worker": worker})


@dataclass(slots=True)
class TaskRow:
    """A task that is this worker's. `metrics` None: it could not even be made."""

    id: ConnectorTaskId
    worker: WorkerId
    state: State
    now: float
    metrics: TaskMetrics | None
    restarts: dict[str, int] = field(default_factory=dict)
    queue: int | None = None
    classes: dict[str, str] = field(default_factory=dict)  # converters: attribute -> class
    labels: str = ""
    ratios: tuple[float, float] = (0.0, 0.0)

    def __post_init__(self) -> None:
        self.labels = _of_task(self.id, self.worker)
        if self.metrics is not None:
            self.ratios = self.metrics.ratios(self.now)


@dataclass(slots=True)
class ConnectorRow:
    """A connector whose own instance is this worker's, or some of whose tasks are (`state` None)."""

    name: ConnectorName
    worker: WorkerId
    state: State | None
    kind: str
    class_name: str
    version: str
    tasks: list[State]
    restarts: dict[str, int] = field(default_factory=dict)
    queue: int | None = None
    plugins: Figures | None = None
    labels: str = ""

    def __post_init__(self) -> None:
        self.labels = _of_connector(self.name, self.worker)


def converters(worker: Mapping[str, str], connector: Config) -> dict[str, str]:
    """The classes of a task's converters, by the attribute of Kafka Connect that tells them."""
    found = {}
    for part in ("key", "value", "header"):
        name = connector.get(f"{part}.converter") or worker.get(f"{part}.converter")
        if name:
            found[f"{part}_converter_class"] = name
    return found
