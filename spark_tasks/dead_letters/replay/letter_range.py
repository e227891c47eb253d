"""A range of the dead letter queue that a replay reads in an executor: which letters are chosen, and their counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_tasks.dead_letters.letters import DeadLetters, Rows
from spark_tasks.dead_letters.replay.replayed_offsets import ReplayedOffsets
from spark_tasks.dead_letters.replay.request import ReplayOrder

_MAX_BYTES: Final = 64 * 1024 * 1024  # of letters; limits what waits for the end of the range, or is repeated
_MAX_KINDS: Final = 100  # topics, stages and classes that are counted separately
_OTHERS: Final = "(others)"
_SHOWN: Final = 1000  # the maximum length of a text in the report, in characters
_COUNTED: Final = ("topic", "stage", "error_class")

Counts = Mapping[str, Mapping[str, int]]
Mask = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class LetterRange:
    """The letters `start` to `end` (exclusive) of a partition of the queue. `done`: those that have been replayed.
    `room`: the maximum number of letters to replay. `samples`: the number of letters in the report of a dry run.
    `resume`: the offset of the first letter that the sink does not have, for a sink that stores offsets itself; None
    for all other connectors. `max_bytes`: of letters, after which the range ends.
    """

    queue: str
    partition: int
    start: int
    end: int
    order: ReplayOrder
    done: ReplayedOffsets
    room: int
    samples: int = 0
    resume: int | None = None
    max_bytes: int = _MAX_BYTES


@dataclass(frozen=True, slots=True)
class ReplayCounts:
    """The outcome for a range. `next_offset`: the start of the next one. Of the `scanned` letters, `chosen` were
    replayed (or would be, in a dry run), `left` did not match the filter, `foreign` cannot be replayed (for example,
    those of another connector), and `held` are in the sink already. `done`: all letters of the partition that have been
    replayed or need no replay. `kinds`: of the chosen letters, by topic, stage and exception.
    """

    next_offset: int
    done: ReplayedOffsets
    scanned: int = 0
    chosen: int = 0
    left: int = 0
    foreign: int = 0
    held: int = 0
    kinds: Counts = field(default_factory=dict)
    samples: tuple[Mapping[str, Any], ...] = ()


class Tally:
    """Chooses the letters to replay and counts them."""

    def __init__(self, part: LetterRange) -> None:
        self._part = part
        self._position = part.start
        self._size = 0
        self.done = part.done
        self.chosen = self._scanned = self._left = self._foreign = self._held = 0
        self._counts: dict[str, Counter[str]] = {name: Counter() for name in _COUNTED}
        self._samples: list[Mapping[str, Any]] = []

    @property
    def full(self) -> bool:
        """Whether the range ends here: as many letters have been chosen as there is room for, or they are large."""
        return self.chosen >= self._part.room or self._size >= self._part.max_bytes

    def choose(self, letters: DeadLetters, replayable: Mask) -> Rows:
        """Returns the rows of the letters to replay, up to `room`. `replayable`: whether each letter can be replayed by
        this connector. Raises ScatteredError, before anything is written, if the replayed letters could not be
        recorded.
        """
        part, raw = self._part, letters.raw
        offsets = raw.column("offset").to_numpy()
        fresh = replayable & ~part.done.covers(offsets)
        missing = fresh if part.resume is None else fresh & (offsets >= part.resume)
        wanted = missing & part.order.takes(letters)
        rows = np.flatnonzero(wanted)[: part.room - self.chosen]
        full = self.chosen + len(rows) >= part.room
        taken = int(rows[-1]) + 1 if full and len(rows) else len(raw)
        end = int(offsets[taken - 1]) + 1
        if not part.order.dry_run:
            self.done = self.done.after(self._position, end, offsets[:taken][(missing & ~wanted)[:taken]])
            self.done.metadata()
        self._position = end
        self._size += raw.nbytes
        self._scanned += taken
        self.chosen += len(rows)
        self._left += int((missing & ~wanted)[:taken].sum())
        self._foreign += int((~replayable)[:taken].sum())
        self._held += int((fresh & ~missing)[:taken].sum())
        self._count(letters, rows)
        return rows

    def _count(self, letters: DeadLetters, rows: Rows) -> None:
        for name in _COUNTED:
            counts, texts = self._counts[name], getattr(letters, name).take(pa.array(rows))
            for pair in pc.value_counts(texts).to_pylist():
                count_kind(counts, str(pair["values"])[:_SHOWN], pair["counts"])
        for row in rows[: max(self._part.samples - len(self._samples), 0)].tolist():
            self._samples.append(_sample(letters, row, self._part))

    def result(self) -> ReplayCounts:
        """Returns the counts of the whole range. Offsets after the last letter are control records or were compacted
        away.
        """
        part = self._part
        end = self._position if self.full else part.end
        done = self.done if part.order.dry_run else self.done.after(self._position, end, np.empty(0, np.int64))
        return ReplayCounts(
            end, done, self._scanned, self.chosen, self._left, self._foreign, self._held,
            {name: dict(counts) for name, counts in self._counts.items()}, tuple(self._samples),
        )


def count_kind(counts: Counter[str], kind: str, count: int) -> None:
    """Adds to the count of a kind; those that come after the first _MAX_KINDS are counted together."""
    counts[kind if kind in counts or len(counts) < _MAX_KINDS else _OTHERS] += count


def _sample(letters: DeadLetters, row: int, part: LetterRange) -> Mapping[str, Any]:
    sample: dict[str, Any] = {
        "queue_partition": part.partition, "queue_offset": letters.raw.column("offset")[row].as_py(),
        **{name: getattr(letters, name)[row].as_py() for name in ("topic", "partition", "offset")},
        "timestamp": letters.raw.column("timestamp")[row].as_py(), "stage": _text(letters.stage[row].as_py()),
        "exception": _text(letters.error_class[row].as_py()), "message": _text(letters.message[row].as_py()),
    }
    if part.order.values:
        sample |= {name: _text(letters.raw.column(name)[row].as_py()) for name in ("key", "value")}
    return sample


def _text(value: str | bytes | None) -> str | None:
    if isinstance(value, bytes):
        value = value[: 4 * _SHOWN].decode(errors="replace")
    return value if value is None else value[:_SHOWN]
