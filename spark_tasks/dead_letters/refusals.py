"""Counts and logs the bad records of a split, and writes them to the dead letter queue as Kafka Connect does."""

from __future__ import annotations

import logging
from bisect import bisect_left
from collections import Counter
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa
from typing_extensions import override

from spark_tasks.config.masking import process_secrets
from spark_tasks.data.columns import HEADERS_TYPE, LOG_APPEND_SCHEMA, RAW_SCHEMA
from spark_tasks.dead_letters.error_handling import ErrorHandling
from spark_tasks.dead_letters.letters import LETTER_PREFIX, PREFIX
from spark_tasks.dead_letters.queue_writes import Append, LetterCounts
from spark_tasks.errors import ToleranceExceededError, message_of, short_trace, shortened
from spark_tasks.metrics.task import TaskMetrics
from spark_tasks.pipeline.errors.failures import Failure, raise_failure

_logger = logging.getLogger(__name__)

_MAX_LINES: Final = 1000  # log lines for each split
_MAX_LINE: Final = 10_000  # characters of an error in such a line, and of the record
_MAX_HEADER: Final = 100_000  # characters; a letter with a longer one would often be too large for its topic
_MAX_BYTES: Final = 32 * 1024 * 1024  # of letters that wait; in a batch, too, unless a single one is larger
_OWN_BYTES: Final = 2_000  # about what a letter needs in memory in addition to its texts and its record's bytes

Header = tuple[str, bytes | None]


@dataclass(frozen=True, slots=True)
class Original:
    """A record as it was read. `raw`: a batch (RAW_SCHEMA) of this one record. `topic`, `partition`, `offset`: its
    position in Kafka; for a source's record the topic it was to be written to, and None. `origin`: headers of its
    letter, with which a source's record can be replayed.
    """

    topic: str
    raw: pa.RecordBatch
    partition: int | None = None
    offset: int | None = None
    origin: tuple[Header, ...] = ()


NO_RECORD: Final = Original("", pa.RecordBatch.from_pylist([], RAW_SCHEMA))
"""In the place of a record that is not needed (see Refusals)."""

Letter = tuple[Original, list[Header]]
"""The record, and the headers that describe the error."""


@dataclass(frozen=True, slots=True)
class Refused:
    """A split's report to the worker: the number of bad records (`by_phase` for the metrics), `lines` for the log, and
    the numbers of dead letters that were written (`letters`) and could not be written (`lost_letters`).
    """

    count: int = 0
    lines: tuple[str, ...] = ()
    by_phase: Mapping[str, int] = field(default_factory=dict)
    letters: int = 0
    lost_letters: int = 0

    @override
    def __reduce__(self) -> str | tuple[Any, ...]:
        """As a name if there is nothing to report, since thousands a second are pickled."""
        own = Refused, (self.count, self.lines, self.by_phase, self.letters, self.lost_letters)
        return "NONE_REFUSED" if self is NONE_REFUSED else own

    def report_to(self, metrics: TaskMetrics, *, skipped: bool) -> None:
        """Logs the lines and updates the metrics. `skipped`: the records are skipped; otherwise they fail the task,
        which counts them.
        """
        metrics.refused(self.by_phase if skipped else {}, len(self.lines), self.letters, self.lost_letters)
        for line in self.lines:
            _logger.error("%s", line)
        if self.lines and self.count > len(self.lines):
            _logger.error("%d more errors of the same split are not listed", self.count - len(self.lines))


NONE_REFUSED: Final = Refused()
_REPORT: Final = "refused"  # an attribute of an error


def reported(error: Exception, metrics: TaskMetrics) -> Exception:
    """Returns the error that ended a source's split, after the bad record that it has with it is logged."""
    report = vars(error).get(_REPORT)
    if isinstance(report, Refused):
        report.report_to(metrics, skipped=False)
    return error


class Refusals:
    """The bad records of one split, in the order in which they were found."""

    def __init__(self, handling: ErrorHandling, at_most: int | None = None) -> None:
        """`at_most`: how many letters of converters and transforms a batch may have."""
        self._handling = handling
        self._at_most = at_most
        process_secrets().add(handling.connector, handling.secrets)  # this process may be another one than the worker's
        self._letters: list[Letter] = []
        self._size = 0
        self._lines: list[str] = []
        self._count = 0
        self._by_phase: Counter[str] = Counter()
        self._counts = LetterCounts()

    @property
    def refused(self) -> Refused:
        """The report to the worker; with all letters when those that were sent are acknowledged."""
        if not self._count:
            return NONE_REFUSED
        counts = self._counts
        return Refused(self._count, tuple(self._lines), dict(self._by_phase), counts.written, counts.lost)

    @property
    def needs_record(self) -> bool:
        """Whether the next bad record itself is needed, and not only its error."""
        handling = self._handling
        return bool(handling.queue) or (handling.log and handling.log_records and len(self._lines) < _MAX_LINES)

    @property
    def full(self) -> bool:
        """Whether the queued letters need so much memory that they should be sent before others are added."""
        return self._size >= _MAX_BYTES

    @property
    def enough(self) -> bool:
        """Whether a batch should end, if it can, after the record of the last queued letter."""
        return self.full or (self._at_most is not None and len(self._letters) >= self._at_most)

    def add(self, failure: Failure, original: Original) -> None:
        """Adds a bad record. If errors.tolerance is `none`, raises ToleranceExceededError after queuing its letter."""
        handling = self._handling
        self._count += 1
        self._by_phase[failure.stage.phase] += 1
        if handling.log and len(self._lines) < _MAX_LINES:
            self._lines.append(log_line(failure, original, handling))
        if handling.queue:
            letter = original, context_headers(failure, original, handling)
            self._letters.append(letter)
            self._size += _size(letter)
        if not handling.tolerant:
            raise_failure(failure)

    @property
    def offsets(self) -> list[int]:
        """The offsets of the records with queued letters."""
        return [original.offset for original, _ in self._letters if original.offset is not None]

    def drop(self, offsets: Container[int]) -> None:
        """Removes the queued letters of the records at these offsets, which have one already."""
        self._letters = [letter for letter in self._letters if letter[0].offset not in offsets]

    def send(self, append: Append, before: int | None = None) -> None:
        """Writes the queued letters in the order of their records' offsets. One that Kafka does not take, because it
        is too large for example, is logged instead. `before`: only those of records before this offset.
        """
        for letters in self._taken(before):
            self._counts.append(self._handling, letters, append)

    def send_apart(self, before: int | None = None) -> None:
        """Like `send`, but with a separate producer, and waits until the letters are acknowledged."""
        for letters in self._taken(before):
            self._counts.write(self._handling, letters)

    def end_source(self, error: ToleranceExceededError) -> None:
        """Before a bad record fails a source's task: writes its letter, outside of the transaction, which the failure
        aborts. `error` takes the report to the worker.
        """
        try:
            self.send_apart()
        except Exception as problem:  # noqa: BLE001 - the task fails with the earlier error
            _logger.warning("Could not write to the dead letter queue: %s", problem)
        vars(error)[_REPORT] = self.refused

    def _taken(self, before: int | None) -> Iterator[pa.RecordBatch]:
        letters = sorted(self._letters, key=lambda letter: letter[0].offset or 0)
        count = len(letters) if before is None else bisect_left(letters, before, key=lambda one: one[0].offset or 0)
        letters, self._letters = letters[:count], letters[count:]
        self._size = sum(map(_size, self._letters))
        for some in _parts(letters):
            yield _raw(some, self._handling)


def _size(letter: Letter) -> int:
    original, context = letter
    # The columns with bytes one by one: the size of a slice of a batch takes three times as long.
    own: int = sum(column.nbytes for column in original.raw.columns[2:])
    return _OWN_BYTES + own + sum(len(value or b"") for _, value in context)


def _parts(letters: list[Letter]) -> Iterator[list[Letter]]:
    part, size = list[Letter](), 0
    for letter in letters:
        own = _size(letter)
        if part and size + own > _MAX_BYTES:
            yield part
            part, size = [], 0
        part.append(letter)
        size += own
    if part:
        yield part


def _raw(letters: list[Letter], handling: ErrorHandling) -> pa.RecordBatch:
    """Returns the original records; the headers that describe the error follow their own headers."""
    batch = pa.concat_batches([original.raw for original, _ in letters])
    if not handling.with_headers:
        return batch
    own = batch.column("headers").to_pylist()
    headers = [
        [*_own(pairs or (), original), *context] for pairs, (original, context) in zip(own, letters, strict=True)
    ]
    return batch.set_column(batch.schema.get_field_index("headers"), "headers", pa.array(headers, HEADERS_TYPE))


def _own(pairs: Sequence[Mapping[str, Any]], original: Original) -> Iterator[Header]:
    """A source's record may be a copy of another letter, with headers from which another record would be replayed."""
    for pair in pairs:
        if original.offset is not None or not pair["key"].startswith(LETTER_PREFIX):
            yield pair["key"], pair["value"]


def context_headers(failure: Failure, original: Original, handling: ErrorHandling) -> list[Header]:
    """Returns Kafka Connect's headers of a dead letter, in its order. A source's record has no partition and offset."""
    if not handling.with_headers:
        return []
    texts = {
        "topic": original.topic,
        "partition": None if original.partition is None else str(original.partition),
        "offset": None if original.offset is None else str(original.offset),
        "connector.name": handling.connector,
        "task.id": str(handling.task),
        "stage": failure.stage.value,
        "class.name": failure.class_name,
        "exception.class.name": failure.error_class,
    }
    headers: list[Header] = [(PREFIX + name, text.encode()) for name, text in texts.items() if text is not None]
    mask = process_secrets().mask
    message = None if failure.message is None else shortened(mask(failure.message), _MAX_HEADER)
    trace = short_trace(failure.error, mask)
    return [
        *headers,
        (PREFIX + "exception.message", None if message is None else message.encode(errors="replace")),
        (PREFIX + "exception.stacktrace", trace.encode(errors="replace")),
        *original.origin,
    ]


def log_line(failure: Failure, original: Original, handling: ErrorHandling) -> str:
    """Returns the line that Kafka Connect logs for a bad record, followed by the error."""
    position = ""
    if handling.log_records:
        position = f", where consumed record is {_place(original)}"
        if original.offset is None:
            position = f", where source record is = {_content(original)}"
    return (
        f"Error encountered in task {handling.connector}-{handling.task}. Executing stage '{failure.stage.value}' with "
        f"class '{failure.class_name}'{position}. {failure.error_class}: "
        f"{shortened(message_of(failure.error), _MAX_LINE)}"
    )


def _place(original: Original) -> str:
    time = original.raw.column("timestamp")[0].as_py()
    kind = "LogAppendTime" if original.raw.schema.metadata == LOG_APPEND_SCHEMA.metadata else "CreateTime"
    when = "" if time is None or time < 0 else f", timestamp={time}, timestampType={kind}"
    return f"{{topic='{original.topic}', partition={original.partition}, offset={original.offset}{when}}}"


def _content(original: Original) -> str:
    key, value = (original.raw.column(part)[0].as_py() for part in ("key", "value"))
    return shortened(f"{{topic='{original.topic}', key={key!r}, value={value!r}}}", _MAX_LINE)
