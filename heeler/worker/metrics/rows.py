"""What /metrics shows of a worker at one moment: a row for each connector and task."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from types import MappingProxyType
from typing import Final, NamedTuple, Protocol

from heeler.worker.metrics.text import labels
from spark_tasks.metrics.plugins import Figures
from spark_tasks.metrics.task import TaskMetrics
from spark_tasks.plugins import Kind
from storage.ids import Config, ConnectorName, ConnectorTaskId, State, WorkerId
from storage.status.state import Restarts

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


class StagePlugin(NamedTuple):
    """A transform of a task, or a predicate that one has. `version`: None if it has none."""

    kind: str  # "transform" or "predicate"
    name: str
    class_name: str
    version: str | None


class TaskPlugins(NamedTuple):
    """The plugins of a task. `classes`: the known values of CLASSES, by attribute."""

    classes: Mapping[str, str] = MappingProxyType({})
    stages: Sequence[StagePlugin] = ()


@dataclass(slots=True)
class TaskRow:
    """A task of this worker. `metrics`: None if it could not be created. `automatic`: its automatic restarts
    (errors.restart.policy).
    """

    id: ConnectorTaskId
    worker: WorkerId
    state: State
    now: float
    metrics: TaskMetrics | None
    restarts: dict[str, int] = field(default_factory=dict)
    queue: int | None = None
    plugins: TaskPlugins = TaskPlugins()  # noqa: RUF009 - immutable
    labels: str = ""
    ratios: tuple[float, float] = (0.0, 0.0)
    automatic: Restarts | None = None

    def __post_init__(self) -> None:
        self.labels = _of_task(self.id, self.worker)
        if self.metrics is not None:
            self.ratios = self.metrics.ratios(self.now)


@dataclass(slots=True)
class ConnectorRow:
    """A connector that has its instance, or only tasks (`state` None), on this worker. `automatic`: see TaskRow."""

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
    automatic: Restarts | None = None

    def __post_init__(self) -> None:
        self.labels = _of_connector(self.name, self.worker)


class Facts(Protocol):
    """What is known about plugins. Whoever asks does not wait long."""

    def connector_type(self, config: Config | None) -> str:
        """The type of the connector class in a config; "unknown" if it is not known (yet)."""

    def version(self, kind: Kind, name: str, wanted: str | None) -> str | None:
        """A plugin's version; None if it is not known (yet). `wanted`: the requested versions."""

    def known(self) -> int:
        """A number that changes when more is known."""


_CONVERTERS: Final = (("key", Kind.CONVERTER, ""), ("value", Kind.CONVERTER, ""),
                      ("header", Kind.HEADER_CONVERTER, "org.apache.kafka.connect.storage.SimpleHeaderConverter"))
CLASSES: Final = (
    "connector_class", "connector_type", "connector_version", "task_class", "task_version",
    *(f"{part}_converter_{what}" for part, _, _ in _CONVERTERS for what in ("class", "version")))
"""The attributes of Kafka Connect's task metrics that describe a task's plugins (KIP-891)."""


def classes_of(worker: Mapping[str, str], connector: Config, plugins: Facts) -> dict[str, str]:
    """The known classes and versions of the connector and its converters, by attribute (see CLASSES)."""
    attributes: dict[str, str | None] = {
        "connector_class": connector.get("connector.class"),
        "connector_type": plugins.connector_type(connector) if connector else None}
    for part, of_kind, default in _CONVERTERS:
        key = f"{part}.converter"
        own = connector if connector.get(key) else worker
        name = own.get(key) or default
        attributes[f"{part}_converter_class"] = name
        wanted = own.get(f"{key}.plugin.version")
        attributes[f"{part}_converter_version"] = plugins.version(of_kind, name, wanted) if name else None
    return {attribute: value for attribute, value in attributes.items() if value}


def stages_of(connector: Config, plugins: Facts) -> Iterator[StagePlugin]:
    """The transforms of a connector and the predicates that they have, each once."""
    predicates: dict[str, None] = {}
    for name in dict.fromkeys(filter(None, map(str.strip, connector.get("transforms", "").split(",")))):
        yield from _stage("transform", Kind.TRANSFORMATION, name, connector, plugins)
        predicates[connector.get(f"transforms.{name}.predicate", "")] = None
    for name in predicates:
        yield from _stage("predicate", Kind.PREDICATE, name, connector, plugins)


def _stage(kind: str, of_kind: Kind, name: str, connector: Config, plugins: Facts) -> Iterator[StagePlugin]:
    prefix = f"{kind}s.{name}."
    class_name = connector.get(f"{prefix}type")
    if class_name:
        wanted = connector.get(f"{prefix}plugin.version")
        yield StagePlugin(kind, name, class_name, plugins.version(of_kind, class_name, wanted))
