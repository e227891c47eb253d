"""Records of a source that cannot be appended are found before they are sent."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest

from spark_tasks.dead_letters.error_handling import ErrorHandling
from spark_tasks.dead_letters.refusals import Refusals
from spark_tasks.kafka.errors import InvalidTopicError, RecordRefusedError
from spark_tasks.kafka.records.encode import encode
from spark_tasks.kafka.records.errors import RecordTooLargeError
from spark_tasks.kafka.records.too_large import too_large
from spark_tasks.sources.sound_records import SoundAppender, cut_down
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
    cut = cut_down(raw_batch([value], keys=[key], headers=[headers]), LIMIT)
    assert too_large(cut, LIMIT // 2) == []
    (record,) = cut.select(["key", "value", "headers"]).to_pylist()
    found = record["headers"] and [(pair["key"], pair["value"]) for pair in record["headers"]]
    assert (record["key"], record["value"], found) == left


@pytest.fixture
def rig():
    """A topic with two partitions; `lands` and `appended` tell what an Appender has been given."""
    rig = SimpleNamespace(appended=[], used=[], lands=[])

    def append(topic, partitions, raw, on_append, on_refusal):
        rig.on_refusal = on_refusal
        rig.appended.append((topic, partitions if partitions is None else list(partitions), values(raw)))
        if on_append is not None:
            on_append(1, np.arange(len(raw)), 7)

    def made(*, tolerant, settles=False):
        rig.refusals = Refusals(ErrorHandling(tolerant=True, queue="dead", with_headers=True))
        return SoundAppender(
            SimpleNamespace(append=append), SimpleNamespace(partitions=lambda _topic, **_: [0, 1]), LIMIT,
            rig.used.append, rig.refusals if tolerant else None, settles=settles)

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


def test_a_record_that_only_a_broker_refuses_is_settled_later(rig):
    sound = rig.made(tolerant=True, settles=True)
    sound.append("t", pa.array([0, 5, 1]), raw_batch([b"a", b"lost", b"b"]))
    assert sound.settle() == []
    rig.on_refusal(1, RecordRefusedError("no key"))
    assert [values(one) for one in sound.settle()] == [[b"b"]]
    assert sound.settle() == []
    letters = []
    rig.refusals.send(lambda _topic, raw, _: letters.extend(raw.to_pylist()))
    produced = [pair["value"] for pair in letters[1]["headers"] if pair["key"] == "heeler.letter.produced"]
    assert ([letter["value"] for letter in letters], produced) == ([b"lost", b"b"], [b"1"])


@pytest.mark.parametrize("tolerant", [True, False])
def test_otherwise_it_is_an_error_of_the_appender(rig, tolerant):
    rig.made(tolerant=tolerant, settles=not tolerant).append("t", None, raw_batch([b"a"]))
    assert rig.on_refusal is None


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
