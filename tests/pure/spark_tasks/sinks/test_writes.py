"""Records that a writer refuses are found; an outage of its target does not make records bad."""

from __future__ import annotations

import errno
import gc
import socket
import sqlite3
import urllib.error
import weakref
from types import SimpleNamespace

import pyarrow as pa
import pytest
from pyspark import TaskContext, cloudpickle
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceWriter

from spark_tasks.errors import ConnectError, RetriableError, ToleranceExceededError
from spark_tasks.plugins.errant_records import errant_record_reporter
from spark_tasks.sinks.writes import WriterRunner

PLACE = ("orders", 3)


def batches(*sizes):
    at = 100
    for size in sizes:
        offsets = list(range(at, at + 2 * size, 2))  # with gaps, as in a compacted topic
        yield pa.RecordBatch.from_pydict({"offset": offsets, "value": [{"n": n} for n in offsets]})
        at += 2 * size


class Picky(DataSourceArrowWriter):
    def __init__(self, bad, error):
        self.bad, self.error = bad, error

    def write(self, iterator):
        seen = [offset for batch in iterator for offset in batch.column("offset").to_pylist()]
        if self.bad & set(seen):
            raise self.error
        return seen


class PickyRows(DataSourceWriter):
    """Sees fields of values only, one row at a time."""

    def __init__(self, bad):
        self.bad = bad

    def write(self, iterator):
        seen = []
        for number, row in enumerate(iterator):
            if row.n in self.bad:
                errant_record_reporter().report(ValueError(f"{row.n}"), row=number)
            else:
                seen.append(row.n)
        return seen


def runner(writer, accepts="records", *, tolerant=True):
    def refuse(offset, error):
        raise ToleranceExceededError(f"{offset}: {error}")

    return WriterRunner(cloudpickle.dumps(writer), accepts, PLACE, tolerant=tolerant, refuse=refuse)


def test_exactly_the_refused_records_are_left_out():
    every = list(batches(10, 1, 300))
    bad = {100, 120, 122, 720}
    messages, reports = runner(Picky(bad, ValueError("no"))).write_accepted(every)
    assert [offset for message in messages for offset in message] == [
        offset for batch in every for offset in batch.column("offset").to_pylist() if offset not in bad
    ]
    assert [offset for offset, _ in reports] == sorted(bad)
    assert {str(error) for _, error in reports} == {"no"}


class WordlessError(Exception):
    def __str__(self):
        raise RuntimeError("no text")


def test_errors_whose_text_cannot_be_read_are_those_of_records():
    messages, reports = runner(Picky({104}, WordlessError())).write_accepted(list(batches(10)))
    assert [offset for message in messages for offset in message] == [100, 102, *range(106, 120, 2)]
    assert [(offset, type(error).__name__) for offset, error in reports] == [(104, "WordlessError")]


CALLS = []


class Quoting(Picky):
    """Says which, in words."""

    def write(self, iterator):
        CALLS.append(self)
        seen = [row["n"] for batch in iterator for row in batch.column("value").to_pylist()]
        for n in seen:
            if n in self.bad:
                raise ValueError(f"Key (n)=({n}) already exists")
        return seen


def test_records_quoted_in_the_error_are_tried_alone():
    CALLS.clear()
    bad = {100 + 2 * row for row in range(150, 2000, 300)}
    _, reports = runner(Quoting(bad, None)).write_accepted(list(batches(1000, 1000)))
    assert {offset for offset, _ in reports} == bad
    assert len(bad) < len(CALLS) <= 8 * len(bad), "searched by halves, it would be nine calls for each alone"


class Numbers(DataSourceArrowWriter):
    """Accepts only numbers, and quotes other values in its error."""

    def write(self, iterator):
        texts = [text for batch in iterator for text in batch.column("value").to_pylist()]
        CALLS.append(len(texts))
        return [int(text) for text in texts]


@pytest.mark.parametrize(("word", "calls", "given"), [("x", 2.5, 1.1), ("x{}", 2.5, 1.1), ("{}.0", 6.5, 1.6)])
def test_finding_bad_records_needs_few_calls_and_rewrites(word, calls, given):
    """How many bad records there are is known from the split before; each record is written once. The bad ones are
    alike, look alike (letters and digits), or look like good ones (signs and digits).
    """
    CALLS.clear()
    texts = [word.format(n) if n % 500 == 7 else str(n * (-1) ** n) for n in range(20_000)]
    batch = pa.RecordBatch.from_pydict({"offset": range(20_000), "value": texts})
    messages, reports = runner(Numbers()).write_accepted([batch], 500)
    assert [abs(n) for message in messages for n in message] == [n for n in range(20_000) if n % 500 != 7]
    assert [offset for offset, _ in reports] == list(range(7, 20_000, 500))
    assert len(CALLS) <= calls * 40
    assert sum(CALLS) <= given * 20_000


def test_the_error_of_the_whole_batch_does_not_keep_its_records():
    """They are read once more for the search, which may take long."""
    first, kept = runner(Numbers()), []

    class Records: ...

    def failed():
        records = Records()
        kept.append(weakref.ref(records))
        raise ValueError("no")

    try:
        failed()
    except ValueError as error:
        first.write_accepted([pa.RecordBatch.from_pydict({"offset": [1, 2], "value": ["1", "2"]})], None, error)
        assert kept[0]() is None


class Holding(DataSourceArrowWriter):
    """Its error is in a variable of a frame of the error's own traceback, beside a connection."""

    def write(self, iterator):
        connection = Connection()
        error = ValueError("no")
        if any(value == "bad" for batch in iterator for value in batch.column("value").to_pylist()):
            raise error
        del connection


class Connection:
    open = 0

    def __init__(self):
        Connection.open += 1

    def __del__(self):
        Connection.open -= 1


def test_a_search_keeps_nothing_of_failed_calls():
    values = ["bad" if n % 100 == 50 else "good" for n in range(1000)]
    batch = pa.RecordBatch.from_pydict({"offset": list(range(1000)), "value": values})
    gc.disable()
    try:
        _, reported = runner(Holding()).write_accepted([batch], None)
        assert len(reported) == 10
        assert Connection.open == 0
    finally:
        gc.enable()


@pytest.mark.parametrize("tried", [False, True])
def test_a_batch_that_has_failed_as_a_whole_is_not_tried_whole_again(tried):
    CALLS.clear()
    texts = ["x" if n == 600 else "1" for n in range(1000)]
    batch = pa.RecordBatch.from_pydict({"offset": range(1000), "value": texts})
    raised = ValueError("invalid literal for int() with base 10: 'x'") if tried else None
    _, reports = runner(Numbers()).write_accepted([batch], raised=raised)
    assert [offset for offset, _ in reports] == [600]
    assert [*([1000] if tried else []), *CALLS] == [1000, 600, 1, 200, 199]


class StoreError(Exception):
    """As a driver raises it `from` what really happened."""

    def __init__(self, text):
        super().__init__(text)
        self.__cause__ = RuntimeError("no connection")
        self.__cause__.__cause__ = ConnectionRefusedError("nobody")


class ConnectionFailure(Exception):  # noqa: N818
    """As MongoDB's driver has it."""


@pytest.mark.parametrize("error", [
    RetriableError("busy"), ConnectionRefusedError("nobody"), TimeoutError("slow"), sqlite3.OperationalError("locked"),
    StoreError("cannot store it"), ConnectionFailure("away"), socket.gaierror(-3, "Temporary failure"),
    OSError(errno.EHOSTUNREACH, "No route to host"),
])
def test_an_outage_is_retried_and_makes_no_bad_records(error):
    with pytest.raises(RetriableError):
        runner(Picky({100}, error)).write_accepted(list(batches(5)))


def test_a_full_disk_is_retried_and_makes_no_bad_records():
    with pytest.raises(OSError, match="No space"):
        runner(Picky({100}, OSError(28, "No space left on device"))).write_accepted(list(batches(5)))


class NotStoredError(Exception):
    def __init__(self):
        self.__cause__ = OSError(errno.ENOSPC, "No space left on device")


def test_a_full_disk_behind_an_error_of_the_writer_makes_no_bad_records():
    with pytest.raises(NotStoredError):
        runner(Picky({100}, NotStoredError())).write_accepted(list(batches(5)))


class OfUrllibError(urllib.error.HTTPError):
    """Can be pickled."""

    def __init__(self, status):
        super().__init__("http://store", status, "no", {}, None)

    def __reduce__(self):
        return OfUrllibError, (self.code,)


def of_requests(*bases, **attributes):
    """The errors of requests are OSErrors."""
    return type(bases[0], (OSError, *bases[1:]), attributes)("no")


@pytest.mark.parametrize("error", [
    *map(OfUrllibError, (400, 404, 409, 413, 415, 422)), of_requests("InvalidJSONError"),
    of_requests("JSONDecodeError", ValueError), of_requests("HTTPError", response=SimpleNamespace(status_code=400)),
], ids=str)
def test_an_http_server_that_refuses_a_record_makes_one_bad_record(error):
    """The clients' errors are OSErrors, as those of a full disk."""
    messages, reports = runner(Picky({100}, error)).write_accepted(list(batches(5)))
    assert [offset for offset, _ in reports] == [100]
    assert sum(map(len, messages)) == 4


@pytest.mark.parametrize(("error", "expected"), [
    (OfUrllibError(503), RetriableError), (OfUrllibError(401), OSError), (OfUrllibError(500), OSError),
    (FileNotFoundError(errno.ENOENT, "no"), OSError),
], ids=str)
def test_other_errors_of_the_system_make_no_bad_records(error, expected):
    with pytest.raises(expected):
        runner(Picky({100}, error)).write_accepted(list(batches(5)))


def test_reports_by_row_of_a_writer_that_sees_no_offsets():
    message, reports = runner(PickyRows({104, 122}), "rows").write(batches(10, 5))
    assert len(message) == 13
    assert [(offset, str(error)) for offset, error in reports] == [(104, "104"), (122, "122")]


class RaisingAndReporting(PickyRows):
    def write(self, iterator):
        rows = list(iterator)
        if any(row.n == 110 for row in rows):
            raise ValueError("one of them")
        return super().write(iter(rows))


def test_reports_of_calls_that_succeed_are_kept_if_another_one_fails():
    """Each record is written, or has a dead letter."""
    messages, reports = runner(RaisingAndReporting({104, 122}), "rows").write_accepted(list(batches(10, 5)))
    assert [(offset, str(error)) for offset, error in reports] == [(104, "104"), (110, "one of them"), (122, "122")]
    assert [n for message in messages for n in message] == [n for n in range(100, 130, 2) if n not in {104, 110, 122}]


def test_a_reported_record_without_tolerance_fails_the_task():
    with pytest.raises(ToleranceExceededError, match="104: 104"):
        runner(PickyRows({104}), "rows", tolerant=False).write(batches(10))


class Careless(DataSourceArrowWriter):
    def __init__(self, **where):
        self.where = where

    def write(self, iterator):
        _ = list(iterator)
        errant_record_reporter().report(ValueError(), **self.where)


@pytest.mark.parametrize(("where", "wrong"), [
    ({}, TypeError), ({"offset": 100, "row": 0}, TypeError), ({"row": 5}, IndexError), ({"row": -1}, IndexError),
    ({"offset": 101}, ValueError),
])
def test_a_report_of_a_nonexistent_record_is_refused(where, wrong):
    with pytest.raises(wrong, match=r"report\("):
        runner(Careless(**where)).write(batches(5))


class Hasty(DataSourceArrowWriter):
    def write(self, iterator):
        for read in (5, 10):
            next(iterator)
            with pytest.raises(IndexError, match=f"given {read} records"):
                errant_record_reporter().report(ValueError(), row=read)
        errant_record_reporter().report(ValueError(), row=9)


@pytest.mark.parametrize("kind", [iter, list])
def test_a_report_of_a_record_that_was_not_read_yet_is_refused(kind):
    """Also in a search for bad records, whose batches are a list."""
    _, reports = runner(Hasty()).write(kind(batches(5, 5, 5)))
    assert [offset for offset, _ in reports] == [118]


def test_there_is_no_reporter_outside_of_write():
    with pytest.raises(RuntimeError, match="write"):
        errant_record_reporter()


class Named(DataSourceArrowWriter):
    """Names what it writes by the ids of its Spark task, as many writers do."""

    def write(self, iterator):
        for _ in iterator:
            pass
        task = TaskContext.get()
        return task.partitionId(), task.taskAttemptId(), task.attemptNumber(), task.getLocalProperty("x")


def test_a_writer_has_the_context_of_a_spark_task_of_its_own():
    before = TaskContext.get()
    written = [WriterRunner(cloudpickle.dumps(Named()), "records", PLACE, tolerant=False, refuse=print, number=number)
               .write(batches(10, 1))[0] for number in (0, 1, 1)]
    assert [(partition, again, value) for partition, _, again, value in written] == [
        (0, 0, None), (1, 0, None), (1, 0, None)]
    assert len({attempt for _, attempt, *_ in written}) == 3
    assert TaskContext.get() is before


class Lazy(DataSourceArrowWriter):
    def write(self, iterator):
        yield from iterator


def test_a_write_that_is_a_generator_is_an_error():
    with pytest.raises(ConnectError, match=r"^Lazy\.write\(\) contains yield, so it writes nothing"):
        runner(Lazy()).write(batches(10))
