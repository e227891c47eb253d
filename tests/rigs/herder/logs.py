"""The config topic and the status topic of a simulated cluster, with the real records, folds and write rules.

Each is one sequence of records, which every worker reads at its own pace. All readers derive the same from a prefix, so
it is folded once.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from actors.messages.commands import ConfigWrite
from actors.messages.correlation_ids import OpId
from actors.messages.events import ConfigChanged, ConfigOpDone
from actors.stores.config_writes import WritePlan, plan
from spark_tasks.errors import ConnectError
from storage.config import fold as config_fold
from storage.config.state import ClusterConfigState
from storage.errors import PrivilegedWriteError
from storage.log.record import KeyValue, LogRecord
from storage.status import fold as status_fold
from storage.status.records import status_record
from storage.status.state import Status, StatusState

WRITE_TIMEOUT_MS = 30_000


class ConfigLog:
    """The config topic.

    `owner`: who may write what only the leader may write (KIP-618); None if that is not checked.
    """

    def __init__(self) -> None:
        self._views: list[tuple[ClusterConfigState, Any, tuple[Any, ...]]] = [(ClusterConfigState(), {}, ())]
        self.owner: str | None = None

    def __len__(self) -> int:
        return len(self._views) - 1

    def append(self, records: tuple[KeyValue, ...]) -> int:
        """The position after the last of them."""
        for key, value in records:
            state, deferred, _ = self._views[-1]
            record = LogRecord(0, len(self), 0, key, value)
            self._views.append(config_fold.fold(state, deferred, [record], started=True))
        return len(self)

    def view(self, position: int | None = None) -> ClusterConfigState:
        """The state according to the records up to a position (None: all)."""
        return self._views[len(self) if position is None else position][0]

    def changed(self, begin: int, end: int) -> ConfigChanged:
        """What a reader is told of the records from `begin` to `end`."""
        return ConfigChanged(self.view(end), tuple(c for _, _, some in self._views[begin + 1 : end + 1] for c in some))


@dataclass
class _Op:
    op: OpId
    deadline: int
    plan: WritePlan | None = None
    stages: deque[tuple[KeyValue, ...]] = field(default_factory=deque)
    position: int | None = None  # answered when read so far


class ConfigStore:
    """One worker's config store: `tell` sends messages to its herder."""

    def __init__(self, log: ConfigLog, tell: Callable[[Any], None], worker: str, *, transactional: bool) -> None:
        self.log = log
        self.read = len(log)
        self.held = False  # reads make no progress
        self._tell = tell
        self._worker = worker
        self._transactional = transactional
        self._ops: list[_Op] = []

    @property
    def snapshot(self) -> ClusterConfigState:
        """What this worker has read."""
        return self.log.view(self.read)

    def write(self, op: OpId, write: ConfigWrite, now: int) -> None:
        """Start the operation of a WriteConfig; `now` in ms."""
        made = plan(write)
        whole = self._transactional and made.privileged
        stages = [tuple(r for stage in made.stages for r in stage)] if whole else made.stages
        self._ops.append(_Op(op, now + WRITE_TIMEOUT_MS, made, deque(stages)))

    def read_to_end(self, op: OpId, timeout_ms: int, now: int) -> None:
        """Start the operation of a ReadConfigToEnd; `now` in ms."""
        self._ops.append(_Op(op, now + timeout_ms, position=len(self.log)))

    def claim(self, op: OpId) -> None:
        """Execute a ClaimWritePrivileges."""
        if self._transactional:
            self.log.owner = self._worker
        self._tell(ConfigOpDone(op))

    # ------------------------------------------------------------ what the scheduler may do
    def readable(self) -> bool:
        return not self.held and self.read < len(self.log)

    def advance(self, records: int) -> None:
        """Read this many records; complete what waited for them."""
        end = min(self.read + records, len(self.log))
        if end > self.read:
            self._tell(self.log.changed(self.read, end))
            self.read = end
        for op in [o for o in self._ops if o.position is not None and not o.stages and o.position <= self.read]:
            self._end(op, None)

    def sendable(self) -> list[_Op]:
        """Writes that may be sent now: those for one connector are sent one after another."""
        first: dict[Any, _Op] = {}
        for op in self._ops:
            if op.plan is not None:
                first.setdefault(op.plan.connector or id(op), op)
        return [op for op in first.values() if op.stages]

    def send(self, op: _Op, error: Exception | None = None) -> None:
        """Append an op's next stage, or have it fail."""
        if op.plan is None:
            return
        if op.plan.privileged and self._transactional and self.log.owner != self._worker:
            error = PrivilegedWriteError("fenced")
        if error is not None:
            self._end(op, error)
            return
        op.position = self.log.append(op.stages.popleft())
        self.advance(0)

    def answered_late(self, op: _Op) -> None:
        """The records are in the topic, but the writer never learns of it."""
        while op.stages and op in self._ops:
            self.send(op)
        if op in self._ops:
            self._end(op, ConnectError("timed out"))

    def next_deadline(self) -> int | None:
        """When the first op gives up."""
        return min((op.deadline for op in self._ops), default=None)

    def time_out(self, now: int) -> None:
        """End what has waited too long."""
        for op in [o for o in self._ops if o.deadline <= now]:
            self._end(op, TimeoutError("too long"))

    def _end(self, op: _Op, error: Exception | None) -> None:
        self._ops.remove(op)
        self._tell(ConfigOpDone(op.op, error))


class StatusLog:
    """The status topic."""

    def __init__(self) -> None:
        self._views = [(StatusState(), ())]

    def __len__(self) -> int:
        return len(self._views) - 1

    def append(self, status: Status) -> None:
        """Add the record of a status."""
        self.append_record(status_record(status))

    def append_record(self, written: KeyValue) -> None:
        """Add a record, whatever it contains."""
        record = LogRecord(0, len(self), 0, *written)
        self._views.append(status_fold.fold(self._views[-1][0], [record]))

    def view(self, position: int | None = None) -> StatusState:
        """What the records up to a position (None: all) say."""
        return self._views[len(self) if position is None else position][0]

    def removed(self, begin: int, end: int) -> list[Any]:
        """What tombstones between two positions removed."""
        return [item for _, some in self._views[begin + 1 : end + 1] for item in some]


class StatusStore:
    """One worker's status store.

    `flushed` gets the op of a flush when everything before it is in the topic, `caught_up` that of a read to the end.
    """

    def __init__(self, log: StatusLog, flushed: Callable[[OpId], None], caught_up: Callable[[OpId], None]) -> None:
        self.log = log
        self.read = len(log)
        self._flushed = flushed
        self._caught_up = caught_up
        self._book = status_fold.WriteBook()
        self._out: deque[Status | OpId] = deque()
        self._ends: list[tuple[int, OpId]] = []

    @property
    def snapshot(self) -> StatusState:
        """What this worker has read."""
        return self.log.view(self.read)

    def put(self, status: Status, *, safe: bool) -> None:
        """Execute a PutStatus."""
        self._book, ticket = status_fold.admit(self._book, self.snapshot, status, safe=safe)
        if ticket is not None:
            self._out.append(replace(ticket.status))

    def read_to_end(self, op: OpId) -> None:
        """Start the operation of a ReadStatuses."""
        self._ends.append((len(self.log), op))
        self.advance(0)

    def flush(self, op: OpId) -> None:
        """Start the operation of a FlushStatuses."""
        self._out.append(op)

    def expire(self) -> None:
        """Unsent records are too old now (the producer's delivery timeout)."""
        self._out = deque(entry for entry in self._out if not isinstance(entry, Status))

    def sendable(self) -> bool:
        return bool(self._out)

    def send(self) -> None:
        """The oldest write reaches the topic."""
        head = self._out.popleft()
        if isinstance(head, Status):
            self.log.append(head)
        else:
            self._flushed(head)

    def readable(self) -> bool:
        return self.read < len(self.log)

    def advance(self, records: int) -> None:
        """Read this many records."""
        end = min(self.read + records, len(self.log))
        self._book = status_fold.forget(self._book, self.log.removed(self.read, end))
        self.read = end
        for wanted in [wanted for wanted in self._ends if wanted[0] <= end]:
            self._ends.remove(wanted)
            self._caught_up(wanted[1])
