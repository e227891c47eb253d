"""What runs in the executor, without Spark."""

from __future__ import annotations

import itertools
import os
import pickle
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from threading import Lock
from time import process_time, sleep, tzset
from typing import Any

import pyarrow as pa
import pytest
from pyspark import cloudpickle
from pyspark.sql import Row
from pyspark.sql.types import StructType

from spark_tasks.data import ddl
from spark_tasks.data.rows import spark_rows, spark_schema
from spark_tasks.errors import DataError, PluginExitError, RetriableError
from spark_tasks.sinks.writes import as_rows
from spark_tasks.sources.readers import distribute
from spark_tasks.sources.split import as_batches, read_simple
from spark_tasks.spark.executor import (
    Outcome,
    PermanentSplitError,
    SplitError,
    SplitRunner,
    failed_outcome,
    pickled_outcomes,
    run_split,
    value_of,
)


class Good:
    def run(self) -> int:
        return 7


class Bad:
    def __init__(self, error: BaseException) -> None:
        self.error = error

    def run(self) -> int:
        raise self.error


class OddError(RetriableError):
    """Cannot be unpickled: its constructor wants two arguments."""

    def __init__(self, one: str, two: str) -> None:
        super().__init__(f"{one}{two}")


def test_a_plugin_that_exits_fails_its_split_and_not_the_process() -> None:
    outcome = run_split(pickle.dumps(Bad(SystemExit(3))))
    with pytest.raises(PluginExitError, match="the plugin raised SystemExit: 3"):
        value_of(outcome)
    assert "in run" in (outcome.trace or "")


def test_a_spark_partition_runs_its_splits_and_an_error_does_not_affect_others() -> None:
    splits = [pickle.dumps(s) for s in (Good(), Bad(DataError("no")), Good())]
    unread = iter([b"", b""])
    (answer,) = SplitRunner([[], splits])(1, unread)
    outcomes: list[Outcome] = pickle.loads(answer)
    assert [o.value for o in outcomes] == [7, None, 7]
    assert next(unread, None) is None, "Spark does not reuse a worker that left input unread"
    with pytest.raises(DataError, match="no") as caught:
        value_of(outcomes[1])
    assert "in run" in str(caught.value.__cause__), "the executor's traceback is shown"


def test_an_error_that_cannot_be_pickled_keeps_its_text_and_retriability() -> None:
    outcome = run_split(pickle.dumps(Good())[:-1])  # not even a split
    assert outcome.error is not None
    odd = SplitRunner([[pickle.dumps(Raiser())]])(0, iter(()))
    (outcome,) = pickle.loads(next(odd))
    assert isinstance(outcome.error, SplitError)
    assert isinstance(outcome.error, RetriableError)
    assert str(outcome.error) == "OddError: ab"


def test_a_result_that_cannot_be_sent_is_the_error_of_its_split() -> None:
    splits = [pickle.dumps(s) for s in (Good(), Unsendable(), Good())]
    (answer,) = SplitRunner([splits])(0, iter(()))
    first, second, third = pickle.loads(answer)
    assert [first.value, third.value] == [7, 7]
    with pytest.raises(SplitError, match="result of a split cannot be sent to the worker: cannot pickle 'generator'"):
        value_of(second)


class Local:
    """Its result is of a class that pickle cannot find, as Spark allows for commit messages."""

    def run(self) -> object:
        class Message:
            rows = 3

        return Message()


class UnreadableError(Exception):
    def __str__(self) -> str:
        raise KeyError("message")

    __repr__ = __str__

    def __reduce__(self) -> Any:
        raise KeyError("state")


def test_a_result_of_a_local_class_is_sent_as_in_spark() -> None:
    (answer,) = SplitRunner([[pickle.dumps(Local())]])(0, iter(()))
    (outcome,) = pickle.loads(answer)
    assert value_of(outcome).rows == 3


def test_an_error_without_a_message_is_reported_by_its_type() -> None:
    """It ended the executor process."""
    outcome = failed_outcome(UnreadableError())
    with pytest.raises(SplitError, match=r"^UnreadableError: its message cannot be shown$"):
        value_of(outcome)


class InterruptingError(Exception):
    """Raises what is not an Exception, whatever is asked of it."""

    def __str__(self) -> str:
        raise SystemExit(4)

    def __getattribute__(self, name: str) -> Any:
        if name in ("sqlstate", "permanent", "with_traceback"):
            raise SystemExit(5)
        return super().__getattribute__(name)


class DisguisedError(Exception):
    """Becomes something else on its way to the worker."""

    def __reduce__(self) -> Any:
        return KeyboardInterrupt, ()


@pytest.mark.parametrize("kind", [InterruptingError, DisguisedError])
def test_an_error_of_a_plugin_is_always_an_error_on_the_worker(kind: type[Exception]) -> None:
    """The first one ended the executor process, the second one the worker's thread for it."""
    outcome: Outcome = pickle.loads(pickled_outcomes([failed_outcome(kind())]))[0]
    with pytest.raises(SplitError, match=kind.__name__):
        value_of(outcome)


def test_a_huge_message_is_shortened() -> None:
    """To format and to log it took the worker's time, and so that of all its tasks."""
    outcome = run_split(pickle.dumps(Bad(ValueError("begin" + "x" * 5_000_000 + "end"))))
    answer = pickled_outcomes([outcome])
    assert len(answer) < 500_000
    with pytest.raises(SplitError, match=r"(?s)^ValueError: beginx.* 4,900,\d+ characters omitted .*xend$"):
        value_of(pickle.loads(answer)[0])


class Unsendable:
    def run(self) -> object:
        return (n for n in range(3))


class Exiting:
    def __reduce__(self) -> Any:
        raise SystemExit(6)


class AnswersExiting:
    def run(self) -> object:
        return Exiting()


def test_a_result_that_exits_when_it_is_pickled_is_the_error_of_its_split() -> None:
    outcome: Outcome = pickle.loads(pickled_outcomes([run_split(pickle.dumps(AnswersExiting()))]))[0]
    with pytest.raises(SplitError, match="cannot be sent to the worker: the plugin raised SystemExit: 6"):
        value_of(outcome)


class Raiser:
    def run(self) -> None:
        raise OddError("a", "b")


SCHEMA = ddl.parse("id bigint, name string")


def test_tuples_become_batches() -> None:
    (batch,) = as_batches(iter([(1, "a"), (2, None)]), SCHEMA)
    assert batch.to_pylist() == [{"id": 1, "name": "a"}, {"id": 2, "name": None}]
    assert list(as_batches(iter(()), SCHEMA)) == []
    assert [len(b) for b in as_batches(((n, "x") for n in range(25_000)), SCHEMA)] == [
        100, 1_600, 10_000, 10_000, 3_300]


@pytest.mark.parametrize(("rows", "reported"), [
    ([None, (1, "a")], "the source yields rows of type NoneType; a row must be a tuple"),
    ([pa.record_batch({"id": [1]}), None], "yields a NoneType after an Arrow record batch; it must yield either"),
    ([pa.record_batch({"id": [1]}), pa.table({"id": [2]})], "yields a Table after an Arrow record batch"),
    ([pa.record_batch({"id": [1]}), (2, "b")], "yields a tuple after an Arrow record batch"),
])
def test_what_is_no_row_is_an_error(rows: list[Any], reported: str) -> None:
    """A None before all rows ended the batch, and the rows after it were lost."""
    with pytest.raises(DataError, match=reported):
        list(as_batches(iter(rows), SCHEMA))


def test_a_simple_reader_that_returns_no_rows_but_none_is_reported() -> None:
    class Idle:
        def read(self, start: dict[str, int]) -> tuple[None, dict[str, int]]:
            return None, start

    rows, end = read_simple(Idle(), {"at": 1})
    assert end == {"at": 1}
    with pytest.raises(DataError, match=r"read\(\) of the source's reader returned a NoneType; it must yield rows"):
        list(as_batches(rows, SCHEMA))


def test_large_rows_are_batched_by_size() -> None:
    taken = 0

    def rows() -> Iterator[tuple[int, str]]:
        nonlocal taken
        for taken in range(1_200):
            yield taken, "x" * 65_536

    ahead = 0
    for batch in as_batches(rows(), SCHEMA):
        assert batch.nbytes <= 33_600_000
        assert taken < ahead + len(batch) + 1, "rows were gathered before they were asked for"
        ahead += len(batch)
    assert ahead == 1_200


@pytest.mark.parametrize(("schema", "row"), [
    ("v string", ("x" * 10_000_000,)), ("v binary", (b"x" * 10_000_000,)),
    ("v map<string, array<struct<a: string>>>", ({"k": [("x" * 5_000_000,), {"a": "x" * 5_000_000}]},)),
])  # fmt: skip
def test_few_large_rows_are_gathered_for_the_first_batch(schema: str, row: Any) -> None:
    taken = itertools.count()
    batches = as_batches((row for _ in taken), ddl.parse(schema))
    assert [len(next(batches)) for _ in range(2)] == [4, 3]
    assert next(taken) == 7


def test_the_rows_after_small_ones_may_be_large() -> None:
    """A hundred small rows do not show how large those after them are: thousands of large ones were gathered."""
    taken = itertools.count()
    batches = as_batches(((n, "x" if n < 100 else "x" * 50_000) for n in taken), SCHEMA)
    assert [len(next(batches)) for _ in range(3)] == [100, 1_600, 670]


def test_batches_are_cut_and_keep_their_order() -> None:
    big = pa.record_batch({"v": pa.array(range(150_000))})
    cut = list(as_batches(iter([big]), StructType()))
    assert len(cut) > 1
    assert pa.Table.from_batches(cut).column("v").to_pylist() == list(range(150_000))
    wide = pa.record_batch({"v": pa.array([b"x" * 65_536] * 1_200)})
    assert all(batch.nbytes <= 33_600_000 for batch in as_batches(iter([wide]), StructType()))
    alone = pa.record_batch({"v": pa.array([b"x" * 40_000_000] * 2)})
    assert [len(batch) for batch in as_batches(iter([alone]), StructType())] == [1, 1]


@pytest.mark.parametrize(("rows", "schema", "reported"), [
    ([(1, "a"), (1,)], "id bigint, name string", "rows of 1 values, but its schema has 2 columns"),
    ([(1, "a"), ("x", "y")], "id bigint, name string", "column id is bigint but got a str: "),
    ([(5,)], "at timestamp", "column at is timestamp but got a int$"),
    ([(1,), (None,)], "id int not null", "column id is int but got a NoneType: .*must not be None"),
    ([((1, 2, 3),)], "point struct<x:int,y:int>", "column point is struct<x:int,y:int> but got a tuple: "),
    ([(1, 2)], "", "must implement schema"),
])  # fmt: skip
def test_rows_that_do_not_fit_are_refused(rows: list[tuple[object, ...]], schema: str, reported: str) -> None:
    with pytest.raises(DataError, match=reported):
        list(as_batches(iter(rows), ddl.parse(schema)))


@pytest.fixture
def _in_new_york(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "America/New_York")
        tzset()
        yield
    tzset()


@pytest.mark.usefixtures("_in_new_york")
def test_values_are_converted_as_by_spark() -> None:
    schema = ddl.parse(
        "at timestamp, zoned timestamp, text string, amount decimal(4,1), none decimal(4,1), tags map<string,int>, "
        "point struct<x:int,y:int>"
    )
    noon, point = datetime(2026, 1, 1, 12), Row(y=1, x=2)  # noqa: DTZ001 - a data source may well yield naive ones
    zoned = noon.replace(tzinfo=timezone(timedelta(hours=5)))
    row = (noon, zoned, 5, Decimal("1.25"), Decimal("NaN"), {"a": 1}, point)
    (batch,) = as_batches(iter([row]), schema)
    (found,) = batch.to_pylist(maps_as_pydicts="strict")
    assert found == {
        "at": datetime(2026, 1, 1, 17, tzinfo=UTC), "zoned": zoned, "text": "5", "amount": Decimal("1.2"), "none": None,
        "tags": {"a": 1}, "point": {"x": 1, "y": 2},  # as in Spark, a Row within a row goes by position
    }  # fmt: skip


def test_a_read_that_returns_none_is_reported() -> None:
    with pytest.raises(DataError, match=r"read\(\) of the source's reader returned a NoneType; it must yield rows"):
        list(as_batches(None, SCHEMA))  # type: ignore[arg-type]


class Simple:
    def __init__(self, answer: object) -> None:
        self.answer = answer

    def read(self, start: object) -> object:  # noqa: ARG002
        return self.answer


class Counting:
    def read(self, start: dict[str, int]) -> object:
        start["at"] += 1  # as in Spark, the reader may do what it likes with it
        return [(1,)], start


def test_a_simple_reader_answers_rows_and_an_offset() -> None:
    assert read_simple(Simple(([(1,)], {"at": 1})), {}) == ([(1,)], {"at": 1})
    for answer, kind in (([(1,), (2,)], "list"), (None, "NoneType"), (([(1,)], {}, 3), "tuple")):
        with pytest.raises(
                DataError, match=rf"Simple.read\(\) returned a {kind}; a simple reader must return two values"):
            read_simple(Simple(answer), {})
    with pytest.raises(DataError, match=r"Simple.read\(\) returned rows, but the offset is unchanged: {'at': 1}"):
        read_simple(Simple((iter([(1,)]), {"at": 1})), {"at": 1})
    rows, end = read_simple(Simple((iter(()), {"at": 1})), {"at": 1})
    assert (list(rows), end) == ([], {"at": 1})
    assert read_simple(Counting(), {"at": 1}) == ([(1,)], {"at": 2})


TEXTS = ddl.parse("a string, b string")


@pytest.mark.parametrize(("row", "kind"), [({"a": "x", "b": "y"}, "dict"), ("xy", "str"), (7, "int")])
def test_values_that_are_not_rows_are_refused(row: object, kind: str) -> None:
    with pytest.raises(DataError, match=f"rows of type {kind}; a row must be a tuple, a list or a Row"):
        list(as_batches(iter([("v", "w"), row]), TEXTS))


def test_the_values_of_a_row_with_names_are_assigned_by_name() -> None:
    (batch,) = as_batches(iter([Row(b="2", a="1"), ("3", "4"), Row("5", "6"), ["7", "8"]]), TEXTS)
    assert batch.column("a").to_pylist() == ["1", "3", "5", "7"]
    with pytest.raises(DataError, match="a Row with a, c, but its schema has a, b"):
        list(as_batches(iter([Row(a="1", c="2")]), TEXTS))


def test_rows_for_a_sink_have_the_fields_of_the_value() -> None:
    value = pa.array([{"a": 1, "b": "x"}])
    assert as_rows(pa.record_batch({"offset": [0], "value": value})).to_pylist() == [{"a": 1, "b": "x"}]
    assert as_rows(pa.record_batch({"offset": [0], "value": ["x"]})).to_pylist() == [{"value": "x"}]
    empty = as_rows(pa.record_batch({"offset": [0, 1, 2], "value": pa.array([{}, None, {}], pa.struct([]))}))
    assert len(empty) == len(spark_rows(empty)) == 3


@pytest.mark.usefixtures("_in_new_york")
def test_a_row_writer_gets_the_same_rows_as_from_spark() -> None:
    noon = datetime(2026, 1, 1, 12, tzinfo=UTC)
    inner = pa.struct([("x", pa.int64()), ("at", pa.time32("ms"))])
    batch = pa.record_batch({
        "at": pa.array([noon], pa.timestamp("ms", tz="UTC")), "point": pa.array([{"x": 1, "at": time(1, 2)}], inner),
        "points": pa.array([[{"x": 3}]], pa.list_(inner)), "tags": pa.array([[("a", 1)]], pa.map_("string", "int64")),
        "text": pa.array(["s"]).dictionary_encode(),
    })  # fmt: skip
    assert spark_rows(batch) == [
        Row(at=datetime(2026, 1, 1, 7), point=Row(x=1, at=time(1, 2)), points=[Row(x=3, at=None)],  # noqa: DTZ001
            tags={"a": 1}, text="s"),
    ]  # fmt: skip
    assert spark_schema(batch.schema).simpleString() == (
        "struct<at:timestamp,point:struct<x:bigint,at:time(6)>,points:array<struct<x:bigint,at:time(6)>>,"
        "tags:map<string,bigint>,text:string>"
    )


def test_partitions_are_distributed_to_lanes() -> None:
    parts = [bytes([n]) for n in range(5)]
    assert distribute(parts, 8) == [(p,) for p in parts]
    assert distribute(parts, 2) == [(b"\0", b"\2", b"\4"), (b"\1", b"\3")]
    assert distribute(parts, 1) == [tuple(parts)]


class Looks:
    """Which files its process has there while it runs."""

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def run(self) -> list[str]:
        return sorted(path.name for path in Path(self.folder).iterdir())


def test_the_stack_of_a_process_is_available_while_a_split_runs(tmp_path: Path) -> None:
    before = signal.getsignal(signal.SIGUSR2)
    try:
        splits = [pickle.dumps(Looks(str(tmp_path)))] * 2
        (answer,) = SplitRunner([splits], str(tmp_path), [["batch-1", "batch-2"]])(0, iter(()))
    finally:
        signal.signal(signal.SIGUSR2, before)
    first, second = pickle.loads(answer)
    assert (first.value, second.value) == ([f"batch-1.{os.getpid()}"], [f"batch-2.{os.getpid()}"])
    assert list(tmp_path.iterdir()) == []


def test_a_cancelled_future_of_a_plugin_is_no_cancelled_batch() -> None:
    outcome = run_split(pickle.dumps(Bad(CancelledError("of the plugin's pool"))))
    assert "CancelledError: of the plugin's pool" in (outcome.trace or "")
    with pytest.raises(SplitError, match="CancelledError: of the plugin's pool"):
        value_of(outcome)


@dataclass(frozen=True)
class Computes:
    """Uses the CPU for a while, and sleeps for as long. What it returns cannot be pickled, or is large."""

    seconds: float
    result: Callable[[], Any]

    def run(self) -> Any:
        end = process_time() + self.seconds
        while process_time() < end:
            pass
        sleep(self.seconds)
        return self.result()


def raises() -> None:
    raise DataError("no")


@pytest.mark.parametrize("result", [int, raises, Lock, lambda: bytes(1 << 20)], ids=["int", "error", "lock", "large"])
def test_an_outcome_says_how_much_of_the_cpu_its_split_has_used(result: Callable[[], Any]) -> None:
    """Also if the result cannot be sent."""
    outcome = run_split(cloudpickle.dumps(Computes(0.05, result)))
    (sent,) = pickle.loads(pickled_outcomes([outcome], 1 << 19))
    assert 0.05 <= sent.cpu_seconds <= sent.seconds - 0.04


def test_a_result_that_is_too_large_fails_its_split_in_the_executor() -> None:
    """It would take the memory of the worker, which all connectors share."""
    large, small = pickle.loads(pickled_outcomes([Outcome(bytes(3 << 20)), Outcome(bytes(1 << 10))], 1 << 20))
    with pytest.raises(PermanentSplitError, match="the result of a split has 3 MiB, more than the 1 MiB"):
        value_of(large)
    assert value_of(small) == bytes(1 << 10)
