"""The stream reader of a source task, which plans and commits its batches (see PluginObject)."""

from __future__ import annotations

from functools import partial

from spark_tasks.errors import ConnectError
from spark_tasks.plugin_processes.plugin_object import Maker, Owner, PluginObject
from spark_tasks.plugins.api import Options, SourceConnector, TransactionSignal
from spark_tasks.plugins.third_party import is_third_party
from spark_tasks.sources.boundaries import BoundaryKind
from spark_tasks.sources.readers import BatchPlan, ReaderFacts, StreamReader
from spark_tasks.sources.stream_offsets import CommittedOffsets, SourceOffsets, StreamOffset, to_connect
from spark_tasks.task import PluginCall, TaskContext
from spark_tasks.tasks.data_sources import data_source_of
from spark_tasks.tasks.pace import SplitSize

_NEEDS_START = ("plan", "offsets", "signal")


class TaskReader:
    """`kill`, `stop_opening` and `calls` may be called on any thread, the others on one. Methods raise what the plugin
    raises, and a RetriableError if the reader's process ends; a new reader then continues from `position`.
    """

    def __init__(self, context: TaskContext, connector: type[SourceConnector]) -> None:
        self._task = context.task
        self._id = context.id
        self._reader = PluginObject(
            Owner.of(context), Maker.of(partial(_reader_of, connector, dict(context.config))), _NEEDS_START)
        # A reader that was made of a function calls it in executors only.
        self._apart = is_third_party(connector) and not hasattr(connector, "read_new")
        self._facts: ReaderFacts | None = None
        self.kill, self.stop_opening = self._reader.kill, self._reader.stop_opening

    def open(self) -> None:
        """Creates the reader."""
        if not self._apart:
            self._reader.open_here()
        self._facts = self._reader.call("facts")

    @property
    def facts(self) -> ReaderFacts:
        """What is known of it. Raises ConnectError before `open`."""
        if self._facts is None:
            raise ConnectError(f"source task {self._id} is not started")
        return self._facts

    def position(self, committed: CommittedOffsets) -> StreamOffset:
        """Returns the stream offset to continue from: that of the task's committed offsets, or the initial one."""
        position: StreamOffset = self._reader.call("position", self._task, committed)
        if self.facts.simple and not self.facts.defines and not self._reader.is_here:
            self._reader.end()  # it is not needed before the task continues from committed offsets again
        return position

    def plan(self, start: StreamOffset, size: SplitSize, *, try_here: bool = False) -> BatchPlan | None:
        """Returns the plan of the batch from `start`, or None if there are no new records."""
        if self.facts.simple and not try_here:
            return BatchPlan.simple(start)
        plan: BatchPlan | None = self._reader.call("plan", start, size, try_here)
        return plan

    def offsets(self, end: StreamOffset) -> SourceOffsets:
        """Returns the offsets to commit after a batch."""
        if "to_source_offsets" not in self.facts.defines:
            return to_connect(None, self._task, end)
        offsets: SourceOffsets = self._reader.call("offsets", self._task, end)
        return offsets

    def signal(self, kind: BoundaryKind, start: StreamOffset, end: StreamOffset) -> TransactionSignal:
        """Returns whether the transaction ends with a batch, see signal_of."""
        if kind is not BoundaryKind.CONNECTOR:
            return "commit"
        signal: TransactionSignal = self._reader.call("signal", kind, start, end)
        return signal

    def commit(self, end: StreamOffset) -> None:
        """All records up to `end` are in Kafka, and their offsets are committed."""
        if "commit" in self.facts.defines and self._reader.exists:  # another one has read nothing
            self._reader.call("commit", end)

    def stop(self) -> None:
        """Stops the reader."""
        try:
            self._reader.call_last("stop")
        finally:
            self._reader.end()

    def calls(self) -> list[PluginCall]:
        """The call in progress in the reader's process, if there is one. Takes seconds."""
        return self._reader.calls()


def _reader_of(connector: type[SourceConnector], config: Options) -> StreamReader:
    return StreamReader(data_source_of(connector, config))
