"""The API for authors of connectors. A task reads or writes data with a PySpark Python data source; this module adds
what Kafka Connect requires in addition.

- A source task reads with `DataSource.streamReader()` or `simpleStreamReader()`.
- A sink task writes with `DataSource.writer()` (a DataSourceArrowWriter or DataSourceWriter): `write()` runs on
  executors, `commit(messages)` and `abort(messages)` in a process of the task's own (ADR 0058).
"""

# ruff: noqa: ARG002, ARG003, B027  (defaults that authors override)
from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal, Protocol, get_args

from pyspark.sql.datasource import DataSource
from typing_extensions import override

from spark_tasks.config.definition import ConfigDef
from spark_tasks.metrics.plugins import PluginMetrics
from spark_tasks.task import AlteredOffsets, SourceOffset, SourcePartition

__all__ = [
    "AlteredOffsets", "Connector", "ConnectorContext", "Options", "PartitionedOffsets", "ResumableWriter",
    "SinkConnector", "SourceConnector", "SourceOffset", "SourcePartition",
]  # fmt: skip

Options = Mapping[str, str]
Shape = Literal["records", "rows"]
TransactionSignal = Literal["commit", "abort", "continue"]


class ConnectorContext(Protocol):
    """Services of the worker for a running connector. Thread-safe."""

    @property
    def metrics(self) -> PluginMetrics:
        """The connector's own metrics (KIP-877), exported at /metrics. Code of tasks uses heeler.plugin_metrics()."""

    def request_task_reconfiguration(self) -> None:
        """Requests another call of `task_configs`, because the external system has changed."""

    def raise_error(self, error: Exception) -> None:
        """Makes the connector FAILED."""

    def offsets(self) -> Sequence[tuple[SourcePartition, SourceOffset]]:
        """Returns all committed offsets of this source connector."""


class Connector(ABC):
    """One connector. Its constructor must be fast and do no IO; `start` may connect to the external system. It runs in
    a process of its own, and so do the class methods (ADR 0059).
    """

    version: ClassVar[str] = "unknown"
    config_def: ClassVar[ConfigDef]
    aliases: ClassVar[tuple[str, ...]] = ()  # Java class names that refer to this plugin
    mistake: ClassVar[str | None] = None  # an error in the class; only this class of its module is then not available

    def __init__(self, config: Options, context: ConnectorContext) -> None:
        self.config = config
        self.context = context

    @classmethod
    def validate(cls, config: Options) -> Mapping[str, Sequence[str]]:
        """Returns error messages by key, for checks that a ConfigDef cannot express. Called only with values that
        `config_def` accepts.
        """
        return {}

    def start(self) -> None:
        """Starts to monitor the external system, if that is necessary."""

    def stop(self) -> None:
        """Stops what `start` has started, and releases resources."""

    def abandon(self) -> None:
        """Called on a thread of its own when the worker stops waiting for a `start`, `stop` or `task_configs` that
        hangs, if the connector runs on the worker: a process of its own is ended. What it raises is only logged.
        """

    def task_configs(self, max_tasks: int) -> Sequence[Options]:
        """Returns at most `max_tasks` configurations with string values, one for each task. By default, all of them are
        the connector's configuration: a source has one such task, a sink `max_tasks`.
        """
        return [self.config]

    @classmethod
    @abstractmethod
    def data_source(cls, options: Options) -> DataSource:
        """Returns the PySpark data source of one task. `options`: the task's configuration."""


def _shape_mistake(connector: type[Connector], name: str, shape: str) -> str | None:
    if shape in get_args(Shape):
        return None
    return f'{connector.__qualname__}.{name} is {shape!r}; it must be "records" or "rows"'


class SourceConnector(Connector):
    """Reads from an external system into Kafka topics."""

    yields: ClassVar[Shape] = "records"
    """"records": batches have the columns of columns.CONNECT_COLUMNS; "rows": each row is the value of a record."""

    nested_offsets: ClassVar[bool] = True
    """Whether offsets may contain lists and maps, as those of PySpark's readers may. Kafka Connect's may not."""

    @override
    def __init_subclass__(cls, **arguments: Any) -> None:
        super().__init_subclass__(**arguments)
        cls.mistake = vars(cls).get("mistake") or _shape_mistake(cls, "yields", cls.yields)

    @classmethod
    def exactly_once_support(cls, config: Options) -> bool | None:
        """Returns whether the connector supports exactly-once delivery (KIP-618), that is, resumes exactly at its
        offsets; None if that is unknown.
        """
        return None

    @classmethod
    def can_define_transaction_boundaries(cls, config: Options) -> bool:
        """Returns whether the connector supports `transaction.boundary=connector` (KIP-618)."""
        return False

    @classmethod
    def alter_offsets(cls, config: Options, offsets: AlteredOffsets) -> bool:
        """Checks offsets that a user wants to set, and raises ConnectError to reject them. As in Kafka Connect, each
        partition and each offset may be None. Returns True if the connector also stores offsets in the external system
        and has changed them there (KIP-875).
        """
        return False


class SinkConnector(Connector):
    """Writes records of Kafka topics to an external system."""

    accepts: ClassVar[Shape] = "records"
    """"records": `write` gets batches with the columns of CONNECT_COLUMNS; "rows": with the value's fields as columns.
    """

    @override
    def __init_subclass__(cls, **arguments: Any) -> None:
        super().__init_subclass__(**arguments)
        cls.mistake = vars(cls).get("mistake") or _shape_mistake(cls, "accepts", cls.accepts)

    @override
    def task_configs(self, max_tasks: int) -> Sequence[Options]:
        return [self.config] * max_tasks  # Kafka distributes the partitions among them

    @classmethod
    def alter_offsets(cls, config: Options, offsets: Mapping[tuple[str, int], int | None]) -> bool:
        """Checks the consumer group's offsets, by topic and partition, that a user wants to set; None resets one.
        Raises ConnectError to reject them. Returns True if the connector also stores offsets in the external system and
        has changed them there.
        """
        return False


class PartitionedOffsets(Protocol):
    """Optional methods of a stream reader. They convert between its offset, one JSON dict for the whole stream, and
    Connect's offsets, one mapping per source partition. A stream reader without them has one source partition,
    `{"task": n}`, with the stream's offset.
    """

    def to_source_offsets(self, offset: dict[str, Any]) -> Sequence[tuple[SourcePartition, SourceOffset | None]]:
        """Splits the stream's offset by source partition. None removes the offset of a source partition."""

    def from_source_offsets(self, offsets: Sequence[tuple[SourcePartition, SourceOffset]]) -> dict[str, Any]:
        """Returns the stream offset to start from. `offsets`: all committed offsets of the connector. Must return
        `initialOffset()` if none of them belongs to this task.
        """


class TransactionBoundaries(Protocol):
    """An optional method of a stream reader whose connector's `can_define_transaction_boundaries` returns True. It
    decides where the transactions of `transaction.boundary=connector` end (KIP-618). A transaction can end only after a
    batch, whose end `latestOffset` determines.
    """

    def transaction(self, start: dict[str, Any], end: dict[str, Any]) -> TransactionSignal:
        """Called, as `latestOffset` is, when all records from `start` to `end` have been written. "commit" commits the
        transaction; "abort" discards all records since the last boundary, but the task continues after `end`;
        "continue" keeps the transaction open.
        """


class MultiPartitionWriter(Protocol):
    """An optional attribute of a sink's writer. If it is True, a call of `write` may have the records of several
    partitions and tasks of the connector (as Kafka Connect's `put`), in order for each partition. For tasks with few
    records, one such call costs far less than a call for each. In such a call, `kafka_partition` returns None and
    there is no `errant_record_reporter`. If it raises, the records of each partition are passed again, in a separate
    call.
    """

    multi_partition: bool


class ResumableWriter(Protocol):
    """An optional method of a sink's writer that stores Kafka offsets together with its data (exactly once)."""

    def resume_from(self, topic: str, partition: int) -> int | None:
        """Returns the first offset that the sink does not have, or None if it has none of the partition. Runs where
        `commit` does.
        """
