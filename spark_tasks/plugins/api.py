"""The API for plugin authors. A task's data path is a PySpark Python data source; this file adds what Kafka Connect
needs around it.

- A source task reads through `DataSource.streamReader()` or `simpleStreamReader()`.
- A sink task writes through `DataSource.writer()` (a DataSourceArrowWriter or DataSourceWriter): `write()` runs on
  executors, `commit(messages)` and `abort(messages)` on the worker.
"""

# ruff: noqa: ARG002, ARG003, B027  (defaults that authors override)
from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal, Protocol, get_args

from pyspark.sql.datasource import DataSource

from spark_tasks.config.definition import ConfigDef
from spark_tasks.metrics.plugins import PluginMetrics
from spark_tasks.task import SourceOffset, SourcePartition

__all__ = [
    "Connector", "ConnectorContext", "Options", "PartitionedOffsets", "ResumableWriter", "SinkConnector",
    "SourceConnector", "SourceOffset", "SourcePartition",
]  # fmt: skip

Options = Mapping[str, str]
Shape = Literal["records", "rows"]
TransactionSignal = Literal["commit", "abort", "continue"]


class ConnectorContext(Protocol):
    """What the runtime offers a running connector. Thread-safe."""

    @property
    def metrics(self) -> PluginMetrics:
        """The connector's own metrics (KIP-877), shown at /metrics. Its tasks use heeler.plugin_metrics()."""

    def request_task_reconfiguration(self) -> None:
        """Ask for another call of `task_configs`, because the external system changed."""

    def raise_error(self, error: Exception) -> None:
        """Make the connector FAILED."""

    def offsets(self) -> Sequence[tuple[SourcePartition, SourceOffset]]:
        """All committed offsets of this (source) connector."""


class Connector(ABC):
    """One connector. Its constructor must be cheap and do no IO; `start` may connect to the external system."""

    version: ClassVar[str] = "unknown"
    config_def: ClassVar[ConfigDef]
    aliases: ClassVar[tuple[str, ...]] = ()  # Java class names that mean this plugin
    mistake: ClassVar[str | None] = None  # what its author got wrong: it is not offered, unlike others of its module

    def __init__(self, config: Options, context: ConnectorContext) -> None:
        self.config = config
        self.context = context

    @classmethod
    def validate(cls, config: Options) -> Mapping[str, Sequence[str]]:
        """Messages by key about errors that a ConfigDef cannot express. Gets values that `config_def` accepts."""
        return {}

    def start(self) -> None:
        """Begin to watch the external system, if there is something to watch."""

    def stop(self) -> None:
        """Undo `start`."""

    def abandon(self) -> None:
        """Called from any thread when `start`, `stop` or `task_configs` hangs and is no longer waited for. Must not
        block.
        """

    def task_configs(self, max_tasks: int) -> Sequence[Options]:
        """At most `max_tasks` configurations, one for each task, with string values. By default one task, with the
        connector's whole configuration.
        """
        return [self.config]

    @classmethod
    @abstractmethod
    def data_source(cls, options: Options) -> DataSource:
        """The PySpark data source of one task; `options` is the task's configuration."""


def _shape_mistake(connector: type[Connector], name: str, shape: str) -> str | None:
    if shape in get_args(Shape):
        return None
    return f'{connector.__qualname__}.{name} is {shape!r}; it has to be "records" or "rows"'


class SourceConnector(Connector):
    """Reads from an external system into Kafka topics."""

    yields: ClassVar[Shape] = "records"
    """records: batches have the columns of columns.CONNECT_COLUMNS; rows: each whole row is a record's value."""

    def __init_subclass__(cls, **arguments: Any) -> None:
        super().__init_subclass__(**arguments)
        cls.mistake = vars(cls).get("mistake") or _shape_mistake(cls, "yields", cls.yields)

    @classmethod
    def exactly_once_support(cls, config: Options) -> bool | None:
        """Whether it can resume exactly where it was (KIP-618); None if that is not known."""
        return None

    @classmethod
    def can_define_transaction_boundaries(cls, config: Options) -> bool:
        """Whether `transaction.boundary=connector` is possible (KIP-618)."""
        return False

    @classmethod
    def alter_offsets(cls, config: Options, offsets: Sequence[tuple[SourcePartition, SourceOffset | None]]) -> bool:
        """Check offsets that a user wants to set; raise ConnectError to refuse them. True if they are also kept in the
        external system and have been set there (KIP-875).
        """
        return False


class SinkConnector(Connector):
    """Writes records of Kafka topics to an external system."""

    accepts: ClassVar[Shape] = "records"
    """records: `write` gets batches with the columns of CONNECT_COLUMNS; rows: only the value's fields as columns."""

    def __init_subclass__(cls, **arguments: Any) -> None:
        super().__init_subclass__(**arguments)
        cls.mistake = vars(cls).get("mistake") or _shape_mistake(cls, "accepts", cls.accepts)

    @classmethod
    def alter_offsets(cls, config: Options, offsets: Mapping[tuple[str, int], int | None]) -> bool:
        """Check consumer group offsets that a user wants to set, by topic and partition; None resets one. Raise
        ConnectError to refuse them. True if they are also kept in the external system and have been set there.
        """
        return False


class PartitionedOffsets(Protocol):
    """Optional on a stream reader: converts between its offset, one JSON dict for the whole stream, and Connect's
    offsets, a mapping for each source partition. Without it a task has one source partition, `{"task": n}`, whose
    offset is the stream's.
    """

    def to_source_offsets(self, offset: dict[str, Any]) -> Sequence[tuple[SourcePartition, SourceOffset]]:
        """Split the stream's offset by source partition."""

    def from_source_offsets(self, offsets: Sequence[tuple[SourcePartition, SourceOffset]]) -> dict[str, Any]:
        """The stream offset to start from; `offsets` are all committed ones of the connector. Must return
        `initialOffset()` if none of them concerns this task.
        """


class TransactionBoundaries(Protocol):
    """Optional on a stream reader of a connector whose `can_define_transaction_boundaries` returns True: where the
    transactions of `transaction.boundary=connector` end (KIP-618). A transaction can end only with a batch, whose end
    `latestOffset` determines.
    """

    def transaction(self, start: dict[str, Any], end: dict[str, Any]) -> TransactionSignal:
        """Called on the worker when all records from `start` to `end` are written. "commit": make everything since the
        last boundary visible; "abort": discard it, and go on after `end` all the same; "continue": the transaction
        stays open.
        """


class ResumableWriter(Protocol):
    """Optional on a sink writer: a sink that stores Kafka offsets with its data (exactly once)."""

    def resume_from(self, topic: str, partition: int) -> int | None:
        """The first offset that the sink does not have; None if it has none of the partition. Runs on the worker."""
