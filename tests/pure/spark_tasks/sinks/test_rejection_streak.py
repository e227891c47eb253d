"""A target that refuses everything, for a reason that is in no record, costs no record."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from pyspark import cloudpickle
from pyspark.sql.datasource import DataSourceArrowWriter

from spark_tasks.errors import ConnectError, DataError
from spark_tasks.sinks.rejection_streak import RejectionStreak
from spark_tasks.sinks.row_guesser import RowGuesser
from spark_tasks.sinks.writes import WriterRunner

TRIED: list[int] = []


class StoreError(Exception):
    """Of a driver that heeler does not know."""


class RefusedError(Exception):
    """Of an HTTP client."""

    def __init__(self, status: int) -> None:
        super().__init__("refused")
        self.status = status


class BulkIndexError(Exception):
    """As of elastic."""

    errors = [{"index": {"status": 400, "error": {"type": "mapper_parsing_exception"}}}]  # noqa: RUF012


class Refusing(DataSourceArrowWriter):  # type: ignore[misc]
    """Refuses a call with a record that is `bad`, with the error that `error` makes of the first one."""

    def __init__(self, error: Callable[[int], Exception], bad: Callable[[int], bool] = lambda _: True) -> None:
        self._error, self._bad = error, bad

    def write(self, iterator: Any) -> Any:
        numbers = [number for batch in iterator for number in batch.column("value").to_pylist()]
        TRIED.append(len(numbers))
        for number in numbers:
            if self._bad(number):
                raise self._error(number)
        return numbers


def batch(size: int, start: int = 0) -> pa.RecordBatch:
    offsets = range(start, start + size)
    return pa.RecordBatch.from_pydict({"offset": offsets, "value": [3 * offset + 1000 for offset in offsets]})


def search(
    writer: Refusing, size: int, start: int = 0, streak: RejectionStreak | None = None
) -> tuple[list[int], list[int]]:
    """Returns what was written, and the offsets that were refused."""
    runner = WriterRunner(cloudpickle.dumps(writer), "records", None, tolerant=True, refuse=print)
    messages, reports = runner.write_accepted([batch(size, start)], streak=streak)
    return [number for message in messages for number in message], [offset for offset, _ in reports]


@pytest.fixture(autouse=True)
def tried() -> list[int]:
    TRIED.clear()
    return TRIED


@pytest.mark.parametrize("error", [
    lambda _: StoreError("the store is away"), lambda _: StoreError(""),
    lambda number: StoreError(f"<Connection at {hex(id(object()) + number)}>: gave up after 3.{number % 7}77 s"),
    lambda _: StoreError('relation "orders" does not exist'), lambda _: StoreError("table 1030 does not exist"),
], ids=["same", "without words", "addresses and times", "quotes something else", "a value of one record"])
def test_none_is_refused_if_the_target_accepts_nothing_and_its_error_means_no_record(
    error: Callable[[int], Exception], tried: list[int]
) -> None:
    with pytest.raises(ConnectError, match=r"has refused 10 records .*none of this batch is skipped.*StoreErr"):
        search(Refusing(error), 1000)
    assert len(tried) < 100


def test_errors_of_values_are_attributed_to_records_as_long_as_others_may_follow(tried: list[int]) -> None:
    """JSONDecodeError, for example, is raised for the answer of a proxy whose service is away."""
    proxy = Refusing(lambda _: ValueError("Expecting value: line 1 column 1 (char 0)"))
    with pytest.raises(ConnectError, match="refused 100 records in succession"):
        search(proxy, 100)
    with pytest.raises(ConnectError, match="refused 1000 records in succession"):
        search(proxy, 100_000)
    assert len(tried) < 8000
    late = Refusing(lambda _: ValueError("must not be negative"), lambda number: number < 3 * 50 + 1000)
    assert search(late, 60) == ([3 * n + 1000 for n in range(50, 60)], list(range(50)))


@pytest.mark.parametrize("error", [
    lambda _: DataError("not now"), lambda _: sqlite3.IntegrityError("NOT NULL constraint failed: orders.id"),
    lambda number: StoreError(f"bad: '{number}'"), lambda number: StoreError(f"{number} is out of range"),
    lambda number: StoreError(f"the record at offset {(number - 1000) // 3} is bad"),
    lambda number: StoreError("bad: " + "x" * (number % 2)), lambda _: RefusedError(409), lambda _: RefusedError(422),
], ids=["DataError", "of the data", "quoted", "named", "offset", "different", "409", "422"])
def test_all_are_refused_if_the_errors_mean_the_records(error: Callable[[int], Exception]) -> None:
    assert search(Refusing(error), 50) == ([], list(range(50)))


def refusals(values: list[Any], text: str) -> list[int]:
    """Returns the offsets that are refused if all records are, with the value in the error's text."""
    records = pa.RecordBatch.from_pydict({"offset": range(100, 100 + len(values)), "value": [{"v": v} for v in values]})
    guesser, streak = RowGuesser([records]), RejectionStreak()
    streak.begin_batch()
    for row, value in enumerate(values):
        error = StoreError(text.format(value))
        streak.refused(error, row, 100 + row, guesser)
    streak.end_batch(error, guesser)
    return list(range(100, 100 + len(values)))


@pytest.mark.parametrize("values", [
    [-300.5 - n for n in range(50)], [-n - 5 for n in range(50)], [f"BAD-{n}" for n in range(50)],
    [str(n % 10) for n in range(50)], [n // 9 for n in range(50)], [str(n).encode() for n in range(50)],
], ids=["floats", "negative", "texts with digits", "digits", "runs of nine", "bytes"])
@pytest.mark.parametrize("text", ["order {} is unknown", "E11000 duplicate key error dup key: {{ _id: {} }}", "v={}."])
def test_all_are_refused_if_the_error_changes_with_the_value(values: list[Any], text: str) -> None:
    assert len(refusals(values, text)) == 50


@pytest.mark.parametrize(("values", "text"), [
    (["orders"] * 50, 'relation "{}" does not exist'), ([5] * 50, "unknown customer {}"),
    ([10, 7] * 25, "gone: pool size 10, in use 7"), (["x", "y"] * 25, "gone: x"),
], ids=["the table", "one value", "a value by chance", "a character"])
def test_none_is_refused_if_the_error_has_a_value_but_does_not_change_with_it(values: list[Any], text: str) -> None:
    """With all values equal nobody can tell a bad value from the name of a table: the task fails, as in Java."""
    with pytest.raises(ConnectError, match="refused 10 records"):
        refusals(values, text)


def test_a_part_of_a_number_or_word_is_no_value_of_the_record() -> None:
    for text in ("gone after 3.{} s", "gone after {}.5 s", "gone: x{}", "gone: {}x"):
        with pytest.raises(ConnectError, match="refused 10 records"):
            refusals(list(range(50)), text)


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("size", [40, 500])
def test_small_numbers_that_are_in_errors_by_chance_excuse_no_outage(seed: int, size: int) -> None:
    """Each error has the value of one of eight columns about every second time."""
    draw = random.Random(seed)
    columns = {f"c{n}": [draw.randint(0, 9) for _ in range(size)] for n in range(8)}
    records = pa.RecordBatch.from_pydict({
        "offset": range(100, 100 + size), "value": [dict(zip(columns, row, strict=True)) for row in zip(
            *columns.values(), strict=True)]})
    guesser, streak = RowGuesser([records]), RejectionStreak()
    streak.begin_batch()

    def refuse_all() -> None:
        error = StoreError()
        for row in range(size):
            error = StoreError(f"upstream call failed after {draw.randint(1, 9)} ms")
            streak.refused(error, row, 100 + row, guesser)
        streak.end_batch(error, guesser)

    with pytest.raises(ConnectError, match=r"refused \d+ records in succession"):
        refuse_all()


def test_an_error_whose_properties_fail_is_an_error_of_its_record() -> None:
    class PluginError(Exception):
        @property
        def orig(self) -> Exception:
            raise RuntimeError("property")

    assert search(Refusing(lambda _: PluginError("no"), lambda number: number == 1000), 5)[1] == [0]
    assert search(Refusing(lambda _: PluginError("no")), 5)[1] == list(range(5))


def test_a_batch_is_refused_if_some_of_its_errors_mean_the_records() -> None:
    def error(number: int) -> Exception:
        return ValueError(f"bad: '{number}'") if number < 1000 + 3 * 20 else KeyError("id")

    assert search(Refusing(error), 30) == ([], list(range(30)))
    with pytest.raises(ConnectError, match="refused 10 records"):
        search(Refusing(lambda _: KeyError("id")), 10)


def test_another_error_at_the_start_of_a_batch_excuses_no_broken_writer() -> None:
    def error(value: int) -> Exception:
        return StoreError("closed") if value == 1000 else AttributeError("'NoneType' object has no attribute 'execute'")

    with pytest.raises(ConnectError, match="refused 499 records in succession"):
        search(Refusing(error), 500)


def test_the_drivers_own_error_counts_not_the_text_with_the_values_around_it() -> None:
    """SQLAlchemy's: its text has the statement and the record's values."""

    def error(value: int) -> Exception:
        wrapped = StoreError(f'relation "orders" does not exist [SQL: INSERT ...] [parameters: {value}]')
        wrapped.orig = StoreError('relation "orders" does not exist')  # type: ignore[attr-defined]
        return wrapped

    with pytest.raises(ConnectError, match=r'refused 10 records.*StoreError: relation "orders" does not exist$'):
        search(Refusing(error), 500)


def test_a_bulk_request_that_refuses_values_may_refuse_many() -> None:
    refusing = Refusing(lambda _: BulkIndexError("1 document(s) failed"), lambda number: number < 3 * 50 + 1000)
    assert search(refusing, 60)[1] == list(range(50))


def test_offsets_that_were_reset_begin_a_new_count() -> None:
    writer, streak = Refusing(lambda _: StoreError("away")), RejectionStreak()
    search(writer, 3, 1000, streak)
    for start in (0, 3, 6):
        search(writer, 3, start, streak)
    with pytest.raises(ConnectError, match="refused 10 records in succession"):
        search(writer, 3, 9, streak)


def test_few_are_refused_whatever_the_error() -> None:
    assert search(Refusing(lambda _: StoreError("no"), lambda number: number < 1000 + 3 * 9), 100)[1] == list(range(9))
    assert search(Refusing(lambda _: StoreError("no")), 9) == ([], list(range(9)))


def test_a_target_that_goes_away_during_a_search_costs_no_record() -> None:
    """It accepts the first ten, refuses one, accepts ten more, and then goes away."""
    away = Refusing(lambda _: StoreError("away"), lambda number: number == 1000 + 3 * 10 or number >= 1000 + 3 * 21)
    for size in (31, 100, 5000):
        with pytest.raises(ConnectError, match="refused 10 records in succession"):
            search(away, size)
    assert search(away, 30)[1] == [10, *range(21, 30)]
    streak = RejectionStreak()
    with pytest.raises(ConnectError, match="refused 10 records in succession"):
        search(away, 100, streak=streak)
    assert search(away, 21, streak=streak)[1] == [10], "the next batch begins anew"


def test_many_bad_records_in_the_middle_are_refused() -> None:
    some = Refusing(lambda _: StoreError("no"), lambda number: 1000 + 3 * 100 <= number < 1000 + 3 * 600)
    assert search(some, 1000)[1] == list(range(100, 600))
    last = Refusing(lambda _: ValueError("must not be negative"), lambda number: number >= 1000 + 3 * 100)
    assert search(last, 200)[1] == list(range(100, 200))


def test_records_of_small_batches_count_together_and_each_once() -> None:
    """With three records a second, no batch has ten."""
    writer, streak = Refusing(lambda _: StoreError("away")), RejectionStreak()
    for start in (0, 3, 3, 3, 6):  # one batch is repeated
        assert search(writer, 3, start, streak) == ([], list(range(start, start + 3)))
    for _ in range(2):
        with pytest.raises(ConnectError, match="refused 10 records in succession"):
            search(writer, 3, 9, streak)


def test_a_batch_that_was_refused_as_a_whole_is_refused_again_when_it_is_repeated() -> None:
    writer, streak = Refusing(lambda _: ValueError("away")), RejectionStreak()
    for _ in range(3):
        with pytest.raises(ConnectError, match="refused 20 records in succession"):
            search(writer, 20, 0, streak)


def test_a_replay_of_dead_letters_trusts_the_writer() -> None:
    writer, streak = Refusing(lambda _: StoreError("no")), RejectionStreak(trusting=True)
    assert search(writer, 50, streak=streak) == ([], list(range(50)))
