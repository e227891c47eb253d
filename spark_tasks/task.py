"""The interface between task actors and the data plane."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol, TypeVar

from typing_extensions import override

from spark_tasks.config.client_properties import WorkerClients
from spark_tasks.metrics.task import TaskMetrics

T = TypeVar("T")
R_co = TypeVar("R_co", covariant=True)
SourcePartition = Mapping[str, Any]
SourceOffset = Mapping[str, Any]
ResumeFrom = Callable[[str, int], int | None]
"""ResumableWriter.resume_from of plugins/api.py: the first offset of a topic's partition that a sink does not have."""
AlteredOffsets = Sequence[tuple[SourcePartition | None, SourceOffset | None]]


class Split(Protocol[R_co]):
    """A unit of work that an executor process runs. Picklable; imports only spark_tasks."""

    def run(self) -> R_co:
        """Does the work and returns a small, picklable result."""


class DeferredSplit:
    """A split that is created when it is pickled. Engines pickle it when a process is ready to run it, so it includes
    records that arrived while it was queued. `make` must not block; it is called on any thread.
    """

    def __init__(self, make: Callable[[], Split[Any]], expected_seconds: float = 0.0) -> None:
        self._make = make
        self.expected_seconds = expected_seconds

    @override
    def __reduce__(self) -> tuple[Any, ...]:
        return _made, (self._make(),)

    def run(self) -> Any:
        """Creates the split and runs it."""
        return self._make().run()


def _made(split: Split[Any]) -> Split[Any]:
    return split


class Engine(Protocol):
    """Runs the splits of all tasks of a worker in executor processes. `job_per_batch`: each batch is a Spark job, which
    takes tens of milliseconds of CPU time.
    """

    job_per_batch: ClassVar[bool]

    def submit(self, task: str, splits: Sequence[Split[Any]]) -> Future[list[Any]]:
        """Queues the splits of a batch, which run in parallel if possible. `task` ("name-0") labels them. The future
        has the results in order; it fails with the first split's error. Does not block, even while Spark is starting.
        """

    def cancel(self, batch: Future[list[Any]]) -> None:
        """Cancels a queued or running batch; its future fails with CancelledError. Does nothing after its end."""

    def runs(self, batch: Future[list[Any]]) -> bool:
        """Whether a split of the batch has begun. The future also counts as running while a split that a process has
        declined waits for another one. Does not block.
        """

    def ready_s(self, batch: Future[list[Any]]) -> float:
        """How many seconds the main threads of the processes that run the batch's splits have been ready to run without
        a CPU, since their start: only differences have a meaning. 0.0 if that is not known. Does not block.
        """

    def where(self, batch: Future[list[Any]]) -> str | None:
        """The stacks of the processes that run a batch's splits; None if none does. Takes seconds at most: two for a
        process that does not answer.
        """

    def own_process(self, task: str) -> Future[list[Any]] | None:
        """Asks for an executor process that only this task uses. The future has one result, an OwnProcess, or None if
        there may be no more. Returns None if processes run on other machines, or are Spark jobs.
        """


class OwnProcess(Protocol):
    """An executor process of one task. It keeps what its splits leave there. `kill` and `where` may be called on any
    thread.
    """

    @property
    def ended(self) -> bool:
        """Whether it has ended, or is being killed."""

    def run(self, split: Split[T]) -> T:
        """Runs a split there, and returns its result. Blocks. Raises what the split raises, and a RetriableError if the
        process ends.
        """

    def where(self) -> str:
        """The stacks of the process. Takes seconds at most."""

    def kill(self) -> None:
        """Kills the process."""

    def has_left(self) -> None:
        """The process has closed another connection of its task's: it has ended, or is killed now, and the log says
        which. Any thread.
        """

    def close(self) -> None:
        """Ends it when it has no split. Does not wait."""


class OffsetStore(Protocol):
    """The offsets of one source connector, in the worker's offsets topic or in the connector's own."""

    def read(self) -> Sequence[tuple[SourcePartition, SourceOffset]]:
        """Reads to the end of the topic, and returns all committed offsets. Blocks."""

    def stop_reading(self) -> None:
        """Makes a `read` in progress, and every later one, raise StartCancelledError at once. Any thread."""

    def begin_write(self, offsets: Sequence[tuple[SourcePartition, SourceOffset | None]]) -> Callable[[], None]:
        """Starts to write offsets. None as an offset is a tombstone. The returned function blocks until they are
        acknowledged.
        """

    def records(
        self, offsets: Sequence[tuple[SourcePartition, SourceOffset | None]]
    ) -> Sequence[tuple[bytes, bytes | None]]:
        """Returns offsets as key and value bytes of topic records, for the caller to write in a transaction."""

    def before_commit(self, offsets: Sequence[tuple[SourcePartition, SourceOffset | None]]) -> None:
        """To be called before the transaction with these offsets is committed. Blocks."""

    def after_commit(self, offsets: Sequence[tuple[SourcePartition, SourceOffset | None]]) -> None:
        """To be called when the transaction with these offsets is committed. Does not block."""

    def close_soon(self) -> None:
        """Releases the resources of this task in the background. Does not block; may be called twice."""

    @property
    def topic(self) -> str:
        """The topic to which to write `records`."""


class StartGuard(Protocol):
    """Protects an exactly-once source task against other generations of its connector's tasks (KIP-618)."""

    def fence(self) -> None:
        """Asks the leader to fence the producers of all earlier tasks. Call it before the task's producer is
        initialized. Blocks; raises ConnectError.
        """

    def verify(self) -> None:
        """Reads the config topic to its end. Call it when the producer is initialized. Blocks; raises ConnectError if
        there is a newer generation of task configurations, or the task no longer belongs to this worker.
        """

    def cancel(self) -> None:
        """Makes `fence` and `verify` end soon, with an error. Any thread."""


@dataclass(frozen=True, slots=True)
class Progress:
    """The result of one `run_once`. `idle_ms`: how long to wait before the next call; 0 if more records are waiting."""

    records: int = 0
    bytes: int = 0
    idle_ms: int = 0


@dataclass(frozen=True, slots=True)
class PluginCall:
    """A call of a plugin in another process that has not returned. `waits`: it waits for data, which it may do for as
    long as it likes.
    """

    method: str
    seconds: float
    waits: bool
    stack: str


@dataclass(frozen=True, slots=True)
class WorkerSettings:
    """The worker's settings for tasks, parsed when it starts. `clients`: those for the Kafka clients of
    connectors; `converters`: the properties for the default converters, and `plugin.path`.
    """

    group_id: str
    clients: WorkerClients
    converters: Mapping[str, str]
    session_timeout_ms: int
    offset_flush_interval_ms: int
    graceful_stop_ms: int
    max_record_bytes: int
    topic_creation: bool


@dataclass(frozen=True, slots=True)
class TaskContext:
    """The parameters of a runner. `connector` and `config`: the configurations of the connector and of the task, with
    placeholders of config providers resolved. `wake` makes the task actor call `run_once` soon, from any thread.
    `topic_used` adds a topic to the connector's active topics (KIP-558).
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
    metrics: TaskMetrics = field(default_factory=TaskMetrics)  # updated by the runner

    @property
    def id(self) -> str:
        """The task's id as Kafka Connect prints it, "name-0"."""
        return f"{self.connector_name}-{self.task}"


class TaskRunner(Protocol):
    """Runs one Connect task. `cancel` and `stop_starting` may be called on any thread, the other methods on one thread.

    If a method raises, the task becomes FAILED and `close` is called. Runners may have more attributes:
    - `batch`, read on any thread: the future from Engine.submit of the batch in flight, or None
    - `events`, read on any thread: changes with each event of the plugin, if it runs in another process
    - `plugin_calls()`: the calls of the plugin there, None if they are not known; the next `events` follows when one of
      them returns. Takes seconds
    - `restarting`: the task's process has ended and the task starts again in a new one; the task's status shows this
    """

    @property
    def version(self) -> str:
        """The connector's version, for the task's status."""

    def start(self) -> None:
        """Loads the offsets or joins the consumer group. Does not need Spark."""

    def run_once(self) -> Progress:
        """Plans a batch of at most one or two seconds of work, runs it and commits it. Blocks meanwhile."""

    def pause(self) -> None:
        """Runs no batches until `resume`. A sink stays in its consumer group."""

    def resume(self) -> None:
        """Runs batches again."""

    def replay(self, order: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
        """Starts a replay of the dead letter queue and returns its state. `order`: see ReplayOrder; with None, returns
        the state of the last replay, or None if there was none. Raises ConfigError and BusyError.
        """

    def close(self) -> None:
        """Commits completed work, leaves the group, frees all resources. Can be called twice, and after a failure."""

    def stop_starting(self) -> None:
        """Interrupts a `start` in progress, which may then raise StartCancelledError. Any thread."""

    def cancel(self) -> None:
        """Abandons the batch in flight without committing it, so that `run_once` returns soon. Any thread."""
