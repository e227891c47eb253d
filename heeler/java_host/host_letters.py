"""Dead letters that a task in the host has sent, until they are written."""

from __future__ import annotations

import pyarrow as pa

from spark_tasks.dead_letters.error_handling import ErrorHandling
from spark_tasks.dead_letters.queue_writes import LetterCounts
from spark_tasks.host_frames import Batch
from spark_tasks.metrics.task import TaskMetrics

_MAX_BYTES = 8 << 20  # that wait to be written


class HostLetters:
    """The letters of one session. `metrics`: count them."""

    def __init__(self, errors: ErrorHandling, metrics: TaskMetrics) -> None:
        self._errors = errors
        self._metrics = metrics
        self._waiting: list[Batch] = []
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def full(self) -> bool:
        """Whether they should be written before others are taken."""
        return self._bytes >= _MAX_BYTES

    def add(self, letter: Batch) -> None:
        """Adds a letter."""
        self._waiting.append(letter)
        self._bytes += letter.raw.nbytes

    def write(self) -> int:
        """Writes the letters, and returns the number of the last one; 0 if there are none. Raises errors of Kafka."""
        if not self._waiting:
            return 0
        raw = pa.concat_batches([letter.raw for letter in self._waiting])
        counts = LetterCounts()
        counts.write(self._errors, raw)
        self._metrics.refused({}, 0, counts.written, counts.lost)
        last = self._waiting[-1].number
        self.forget()
        return last

    def forget(self) -> None:
        """Drops the letters; their records are read again."""
        self._waiting.clear()
        self._bytes = 0
