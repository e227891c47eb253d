import traceback
import weakref
from functools import partial

import pyarrow as pa
import pytest

from spark_tasks.errors import DataError
from spark_tasks.pipeline.converters.base import BadRowsError
from spark_tasks.pipeline.errors.failures import FailedStage, StageFailedError, good_records, stage
from spark_tasks.pipeline.errors.outages import is_of_machine

BATCH = pa.record_batch({"n": list(range(1000))})


class StoppedError(Exception):
    """Raised by a function that tolerates no bad record."""


@pytest.fixture
def tried():
    """The ranges of rows that `attempt` was called with."""
    return []


@pytest.fixture
def attempt(tried):
    """Fails if a range has a row from 500 on. Its error names none, or with `named` those from 700 on."""

    def call(batch, *, named=False):
        rows = batch.column("n").to_pylist()
        tried.append((rows[0], len(rows)))
        with stage(FailedStage.TASK_PUT, "Sink", "record {} cannot be written"):
            bad = [(at, DataError(f"no {row}")) for at, row in enumerate(rows) if row >= 700]
            if bad and named:
                raise BadRowsError(bad)
            if any(row >= 500 for row in rows):
                raise DataError("no")
            return rows

    return call


def stop(row, failed):
    raise StoppedError(row)


def test_the_search_ends_with_the_first_bad_row_if_none_is_tolerated(attempt, tried):
    with pytest.raises(StoppedError, match=r"^500$"):
        good_records(BATCH, attempt, stop)
    assert len(tried) < 30  # to find all 500 takes thousands


def test_bad_rows_that_are_searched_for_are_refused_before_named_ones_that_follow(attempt):
    refused = []
    parts = good_records(BATCH, lambda batch: attempt(batch, named=True), lambda row, _: refused.append(row))
    assert refused == list(range(500, 1000))
    assert [row for part in parts for row in part] == list(range(500))


def test_named_rows_that_precede_the_first_one_that_is_found_are_refused_first():
    def call(batch):
        rows = batch.column("n").to_pylist()
        with stage(FailedStage.TASK_PUT, "Sink", "record {} cannot be written"):
            named = [(at, DataError("named")) for at, row in enumerate(rows) if row in (3, 900)]
            if named:
                raise BadRowsError(named)
            if 500 in rows:
                raise DataError("found")
            return rows

    refused = []
    good_records(BATCH, call, lambda row, failed: refused.append((row, str(failed.error))))
    assert refused == [(3, "named"), (500, "found"), (900, "named")]


@pytest.mark.parametrize("error", [MemoryError(), OSError(28, "No space left on device"), pa.lib.ArrowMemoryError()])
def test_what_the_machine_lacks_makes_no_bad_record_whatever_it_was_turned_into(error):
    assert is_of_machine(error)
    wrapped = DataError("the value cannot be read")
    wrapped.__cause__ = error
    assert is_of_machine(wrapped)
    with pytest.raises(DataError, match="cannot be read"), stage(FailedStage.VALUE_CONVERTER, "Avro", "no {}"):
        raise wrapped
    assert not is_of_machine(DataError("bad"))


def test_a_failure_keeps_the_trace_of_its_error_but_not_the_records_of_its_attempt():
    """A batch of bad records took hundreds of times its size."""
    kept = []

    class Records: ...

    def attempt():
        records = Records()
        kept.append(weakref.ref(records))
        raise ValueError("no")

    try:
        attempt()
    except ValueError as error:
        failed = StageFailedError(None, FailedStage.TRANSFORMATION, "c", error, "record {}")
    assert kept[0]() is None
    assert "in attempt" in "".join(traceback.format_exception(failed.error))


def test_a_generator_that_yielded_an_error_of_its_own_goes_on():
    def plugin():
        try:
            int("no")
        except ValueError as error:
            yield error
        yield "next"

    running = plugin()
    StageFailedError(None, FailedStage.TRANSFORMATION, "c", next(running), "record {}")
    assert next(running) == "next"


def test_an_attempt_that_can_go_on_without_the_bad_rows_is_not_repeated(attempt, tried):
    """Unless its rows have become those of a larger batch."""
    batch, refused = BATCH.take(pa.array([1, 800, 2, 900, 3])), []

    def call(batch, *, moved):
        try:
            return attempt(batch, named=True)
        except StageFailedError as failed:
            failed.again = lambda left: [-row for row in left.column("n").to_pylist()]
            if moved:
                failed.move(lambda row: row)
            raise

    for moved, parts, attempts in ((False, [[-1, -2, -3]], 1), (True, [[1, 2, 3]], 2)):
        tried.clear()
        assert good_records(batch, partial(call, moved=moved), lambda row, _: refused.append(row)) == parts
        assert len(tried) == attempts
    assert refused == [1, 3, 1, 3]


@pytest.mark.parametrize("bad", [{3}, {0, 999}, {499, 500}, set(range(0, 1000, 2)), set(range(1000))])
def test_rows_between_named_ones_are_kept_in_order(bad):
    batch = pa.record_batch({
        "n": BATCH.column("n"), "topic": pa.array(["a", "b", None, "c"] * 250).dictionary_encode(),
        "value": pa.array([{"x": None if row % 3 else str(row)} for row in range(1000)]),
    }).replace_schema_metadata({"k": "v"})  # fmt: skip

    def call(left):
        with stage(FailedStage.TASK_PUT, "Sink", "record {} cannot be written"):
            named = [(at, DataError("no")) for at, row in enumerate(left.column("n").to_pylist()) if row in bad]
            if named:
                raise BadRowsError(named)
            return left

    refused = []
    parts = good_records(batch, call, lambda row, _: refused.append(row))
    good = [row for row in range(1000) if row not in bad]
    assert refused == sorted(bad)
    assert [part.to_pylist() for part in parts] == ([batch.take(pa.array(good)).to_pylist()] if good else [])
    assert all(part.schema.equals(batch.schema, check_metadata=True) for part in parts)
