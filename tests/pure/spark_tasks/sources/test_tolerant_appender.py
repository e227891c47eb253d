"""Records of a source that cannot be appended are found before they are sent."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest

from spark_tasks.data.columns import size_of
from spark_tasks.dead_letters.error_handling import ErrorHandling
from spark_tasks.dead_letters.refusals import Refusals
from spark_tasks.dead_letters.source_letters import produced_header
from spark_tasks.kafka.errors import InvalidTopicError, RecordRefusedError
from spark_tasks.kafka.records.encode import encode
from spark_tasks.kafka.records.errors import RecordTooLargeError
from spark_tasks.kafka.records.too_large import too_large
from spark_tasks.sources.tolerant_appender import TolerantAppender, stripped
from tests.rigs.raw_records import raw_batch

LARGE, LIMIT = b"x" * 2000, 1000


@pytest.mark.parametrize("skipped", [0, 1, 4])
def test_records_are_too_large_because_of_their_key_value_or_headers(skipped):
    """Headers did not count, so that the record failed the task also with errors.tolerance=all."""
    raw = raw_batch(
        [b"v", LARGE, None, b"v", b"v", None, b"v"], keys=[LARGE, None, b"k", None, None, None, None],
        headers=[None, [], [("h", LARGE)], [("h", b"x"), ("null", None)], [(LARGE.decode(), None)], None,
                 [("a", LARGE[:300]), ("b", LARGE[:300]), ("c", LARGE[:500])]]).slice(skipped)  # fmt: skip
    refused = []
    for row in range(len(raw)):
        try:
            encode(raw, rows=np.array([row]), no_timestamp=0, max_batch_bytes=LIMIT)
        except RecordTooLargeError as error:
            refused.append((row, error.size))
    assert [row + skipped for row, _ in refused] == [row for row in (0, 1, 2, 4, 6) if row >= skipped]
    assert too_large(raw, LIMIT) == refused


@pytest.mark.parametrize(("key", "value", "headers", "left"), [
    (b"k", LARGE, [("h", b"x")], (b"k", None, [("h", b"x")])),
    (b"k", b"v", [("h", LARGE)], (b"k", None, None)),
    (b"k", LARGE, [(LARGE.decode(), None)], (b"k", None, None)),
    (LARGE, b"v", [("h", b"x")], (None, None, None)),
])
def test_a_record_that_is_too_large_fits_into_its_letter(key, value, headers, left):
    """The letter of one with large headers was lost."""
    cut = stripped(raw_batch([value], keys=[key], headers=[headers]), LIMIT)
    assert too_large(cut, LIMIT // 2) == []
    (record,) = cut.select(["key", "value", "headers"]).to_pylist()
    found = record["headers"] and [(pair["key"], pair["value"]) for pair in record["headers"]]
    assert (record["key"], record["value"], found) == left


@pytest.fixture
def rig():
    """A topic with two partitions; `lands` and `appended` tell what an Appender has been given. `too_new`: values that
    the broker refuses with `code`. `copied`: the bytes of records that were copied when it refused them.
    """
    rig = SimpleNamespace(appended=[], used=[], lands=[], too_new=[], code=87, copied=0)

    def append(topic, partitions, raw, on_append, on_refusal):
        rig.appended.append((topic, partitions if partitions is None else list(partitions), values(raw)))
        assert (on_refusal is not None) == rig.tolerant
        bad = [row for row, value in enumerate(values(raw)) if value in rig.too_new]
        usual = pa.default_memory_pool()
        counting = pa.proxy_memory_pool(usual)
        pa.set_memory_pool(counting)
        for row in bad:
            on_refusal(row, RecordRefusedError("too new", rig.code))
        pa.set_memory_pool(usual)
        rig.copied += counting.max_memory()
        if on_append is not None:
            on_append(1, np.delete(np.arange(len(raw)), bad), 7)

    def made(*, tolerant):
        rig.tolerant = tolerant
        rig.refusals = Refusals(ErrorHandling(tolerant=True, queue="dead", with_headers=True))
        return TolerantAppender(
            SimpleNamespace(append=append), SimpleNamespace(partitions=lambda _topic, **_: [0, 1]), LIMIT,
            rig.used.append, rig.refusals if tolerant else None)

    rig.made = made
    rig.landed = lambda partition, rows, offset: rig.lands.append((partition, rows.tolist(), offset))
    return rig


def values(raw):
    return raw.column("value").to_pylist()


def refused(rig):
    """Topic, value, stage and exception of each letter."""
    found = []

    def append(_queue, letters, _on_refusal):
        for row in letters.to_pylist():
            texts = {pair["key"].rpartition("errors.")[2]: pair["value"].decode() for pair in row["headers"]}
            names = ("topic", "stage", "exception.class.name")
            found.append((row["value"], *(texts[name].rpartition(".")[2] for name in names)))

    rig.refusals.send(append)
    return found


def test_letters_are_in_the_order_of_the_records(rig):
    raw = raw_batch([b"no such partition", LARGE, b"good", b"nor this"])
    rig.made(tolerant=True).append("t", np.array([7, 0, 0, 8]), raw)
    assert [value for value, *_ in refused(rig)] == [b"no such partition", None, b"nor this"]
    assert rig.appended == [("t", [0], [b"good"])]


@pytest.mark.parametrize("kind", [np.array, pa.array])
def test_records_that_cannot_be_appended_are_refused(rig, kind):
    raw = raw_batch([b"a", LARGE, b"b", b"c", b"d"])
    appended, rows = rig.made(tolerant=True).append("t", kind([0, 1, 2, -1, 1]), raw, rig.landed)
    assert refused(rig) == [(None, "t", "KAFKA_PRODUCE", "RecordTooLargeException"),
                            (b"b", "t", "KAFKA_PRODUCE", "TimeoutException")]
    assert (values(appended), rows.tolist()) == ([b"a", b"c", b"d"], [0, 3, 4])
    assert (rig.used, rig.lands) == (["t"], [(1, [0, 3, 4], 7)])
    [(_, partitions, _)] = rig.appended
    assert [int(str(p)) for p in partitions] == [0, -1, 1]


def test_records_that_a_broker_refuses_are_collected(rig):
    """The rows are those of the caller, although others were left out before."""
    rig.too_new, lost = [b"c", b"d"], []
    sound = rig.made(tolerant=True)
    raw = raw_batch([LARGE, b"a", b"b", b"c", b"d"])
    appended, rows = sound.append(
        "t", np.array([0, 0, 5, 1, -1]), raw, rig.landed, lambda rows: lost.extend(rows.tolist()))
    assert (values(appended), rows.tolist()) == ([b"a", b"c", b"d"], [1, 3, 4])
    assert (rig.lands, lost) == ([(1, [1], 7)], [3, 4])
    assert sound.collect() == (2, size_of(appended) * 2 // 3)
    assert sound.collect() == (0, 0)
    found = []
    rig.refusals.send(lambda _queue, letters, _: found.extend(letters.to_pylist()))
    headers = [{pair["key"]: pair["value"] for pair in row["headers"]} for row in found]
    assert [one["heeler.letter.produced"] for one in headers[-2:]] == [
        dict(produced_header(partition))["heeler.letter.produced"] for partition in (1, -1)]
    assert headers[-1]["__connect.errors.exception.class.name"] == b"org.apache.kafka.common.InvalidRecordException"


def test_the_letter_of_a_record_whose_timestamp_a_broker_refuses_has_the_time_of_writing(rig):
    """The queue's broker would refuse it too."""
    rig.too_new, rig.code = [b"b"], 32
    sound = rig.made(tolerant=True)
    sound.append("t", None, raw_batch([b"a", b"b"], timestamp=12345))
    sound.collect()
    found = []
    rig.refusals.send(lambda _queue, letters, _: found.extend(letters.to_pylist()))
    [letter] = found
    headers = {pair["key"]: pair["value"] for pair in letter["headers"]}
    assert (letter["value"], letter["timestamp"], headers["heeler.letter.timestamp"]) == (b"b", -1, b"12345")
    assert headers["heeler.letter.produced"] == b"-1"


def test_records_that_a_broker_refuses_are_copied_only_when_they_are_collected(rig):
    """The IO thread, where they are refused, serves all tasks."""
    rig.too_new = [b"bad"]
    sound = rig.made(tolerant=True)
    sound.append("t", None, raw_batch([b"bad"] * 100))
    assert (rig.copied, rig.refusals.refused.count) == (0, 0)
    assert sound.collect()[0] == 100
    assert rig.refusals.refused.count == 100


def test_all_records_for_an_invalid_topic_are_refused(rig):
    appended, rows = rig.made(tolerant=True).append("a/b", None, raw_batch([b"a", b"b"]))
    assert (len(appended), len(rows)) == (0, 0)
    assert refused(rig) == [(value, "a/b", "KAFKA_PRODUCE", "InvalidTopicException") for value in (b"a", b"b")]
    assert rig.used == rig.appended == []
    with pytest.raises(InvalidTopicError, match="'a/b' is not a valid name of a topic"):
        rig.made(tolerant=False).append("a/b", None, raw_batch([b"a"]))


def test_no_topic_is_used_if_no_record_is_left(rig):
    assert len(rig.made(tolerant=True).append("t", None, raw_batch([LARGE]))[1]) == 0
    assert len(rig.made(tolerant=True).append("t", np.array([5]), raw_batch([b"a"]))[1]) == 0
    assert rig.appended == []
    assert rig.used == ["t"], "for its number of partitions"


def test_the_appender_gets_everything_if_errors_are_not_tolerated(rig):
    assert rig.made(tolerant=False).append("t", np.array([5]), raw_batch([LARGE]))[1].tolist() == [0]
    assert rig.appended == [("t", [5], [LARGE])]
