"""The seam between a task actor and the data plane: what the actor drives, and what the drive needs from outside."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from spark_tasks.metrics.task import TaskMetrics

R_co = TypeVar("R_co", covariant=True)
SourcePartition = Mapping[str, Any]
SourceOffset = Mapping[str, Any]


class Split(Protocol[R_co]):
    """One unit of work of a batch: picklable, imports only spark_tasks, runs in a Python worker of an executor."""

    def run(self) -> R_co:
        """Do all of it and return a small, picklable result."""


class DeferredSplit:
    """A split that is created when it is pickled. Engines may pickle it only when a process is ready to run it, so that
    it can include what has arrived while it waited. `make` may be called on any thread and does not block.
    """

    def __init__(self, make: Callable[[], Split[Any]], expected_seconds: float = 0.0) -> None:
        self._make = make
        self.expected_seconds = expected_seconds

    def __reduce__(self) -> tuple[Any, ...]:
        return _made, (self._make(),)

    def run(self) -> Any:
        """Create the split and run it."""
        return self._make().run()


def _made(split: Split[Any]) -> Split[Any]:
    return split


class Engine(Protocol):
    """The worker's one SparkContext behind a queue of splits; jobs of many small tasks may share one Spark job."""

    def submit(self, task: str, splits: Sequence[Split[Any]]) -> Future[list[Any]]:
        """Run the splits at once, in parallel where there is room. The future fails with the first split's error.
        Waits (in the future) until Spark is up. `task` ("name-0") labels the Spark job.
        """

    def cancel(self, batch: Future[list[Any]]) -> None:
        """Give up what `submit` returned, queued or running: it fails with CancelledError. Safe when it is done."""


class OffsetStore(Protocol):
    """The offsets of one source connector, behind the offsets topic (and the connector's own topic, if it has one)."""

    def read(self) -> Sequence[tuple[SourcePartition, SourceOffset]]:
        """All committed offsets, after reading to the end of the topic."""

    def stop_reading(self) -> None:
        """From any thread: a `read` that waits for Kafka, now or later, ends at once with StartCancelledError."""

    def write(self, offsets: Sequence[tuple[SourcePartition, SourceOffset | None]]) -> None:
        """Write and wait until acknowledged; None is a tombstone."""

    def records(
        self, offsets: Sequence[tuple[SourcePartition, SourceOffset | None]]
    ) -> Sequence[tuple[bytes, bytes | None]]:
        """The same as the key and value bytes of topic records, for a transaction that somebody else writes."""

    def after_commit(self, offsets: Sequence[tuple[SourcePartition, SourceOffset | None]]) -> None:
        """That transaction is committed. Does not wait."""

    def close_soon(self) -> None:
        """The task is over: free what is held for it alone. Does not wait. Safe twice."""

    @property
    def topic(self) -> str:
        """The topic that `records` belong to."""


class StartGuard(Protocol):
    """What a source task has to ask around the birth of its transactional producer (KIP-618)."""

    def fence(self) -> None:
        """Before it: have the leader fence the producers of all former tasks. Waits; raises ConnectError."""

    def verify(self) -> None:
        """After it: read the config topic to its end. Raises ConnectError where there is a newer set of tasks, or the
        task is no longer this worker's.
        """

    def cancel(self) -> None:
        """From any thread: have `fence` and `verify` end soon, with an error."""


@dataclass(frozen=True, slots=True)
class Progress:
    """What one `run_once` did. `idle_ms`: how long the actor may sleep before it asks again (0: more is waiting)."""

    records: int = 0
    bytes: int = 0
    idle_ms: int = 0


@dataclass(frozen=True, slots=True)
class WorkerSettings:
    """What tasks need of the worker's settings, parsed when it started. `clients`: the properties from which the Kafka
    clients of its connectors start, see client_properties; `converters`: those of its converters, and `plugin.path`.
    """

    group_id: str
    clients: Mapping[str, str]
    converters: Mapping[str, str]
    session_timeout_ms: int
    offset_flush_interval_ms: int
    max_record_bytes: int
    topic_creation: bool


@dataclass(frozen=True, slots=True)
class TaskContext:
    """Everything a runner needs. `connector` and `config`: the connector's and the task's configuration with
    config-provider placeholders resolved. `wake` may be called from any thread and makes the task actor call
    `run_once` soon. `topic_used` reports a topic for topic tracking.
    """

    connector_name: str
    task: int
    worker: WorkerSettings
    connector: Mapping[str, str]
    config: Mapping[str, str]
    engine: Engine
    offsets: OffsetStore | None  # sources only
    wake: Callable[[], None]
    topic_used: Callable[[str], None]
    guard: StartGuard | None = None  # sources with exactly-once delivery only
    metrics: TaskMetrics = field(default_factory=TaskMetrics)  # the runner reports to it

    @property
    def id(self) -> str:
        """The task's id as Kafka Connect prints it, "name-0"."""
        return f"{self.connector_name}-{self.task}"


class TaskRunner(Protocol):
    """Drives one Connect task. All methods but `cancel` and `stop_starting` are called by one thread, one at a time.

    Any may raise, and then the task is FAILED and `close` is called. A runner may have an attribute `batch`, which any
    thread reads: the future from Engine.submit of the batch that is on its way, None where there is none. One that can
    replay its dead letter queue has `replay(order)`, see SinkTask. One whose process has ended, and that starts in the
    next one, has `restarting`, which its status then says.
    """

    @property
    def version(self) -> str:
        """The connector's, for the task's status."""

    def start(self) -> None:
        """Load offsets or join the consumer group. Needs no Spark yet."""

    def run_once(self) -> Progress:
        """Plan one bounded batch (one to two seconds of work at most), run it, commit it. Blocks meanwhile."""

    def pause(self) -> None:
        """No batches until `resume`; a sink keeps its place in the group."""

    def resume(self) -> None:
        """Undo `pause`."""

    def close(self) -> None:
        """Commit what is done, leave the group, free everything. Safe after a failure, and twice."""

    def stop_starting(self) -> None:
        """From any thread: a `start` that is going on is not wanted any more; it may end with StartCancelledError."""

    def cancel(self) -> None:
        """From any thread: abandon the batch in flight, without committing it, so that `run_once` returns soon."""
