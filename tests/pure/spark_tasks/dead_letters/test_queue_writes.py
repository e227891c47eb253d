"""Letters that are too large for the producer, or that a broker does not take."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pyarrow as pa
import pytest

from spark_tasks.data.columns import RAW_SCHEMA
from spark_tasks.dead_letters import queue_writes
from spark_tasks.dead_letters.error_handling import ErrorHandling
from spark_tasks.dead_letters.queue_writes import LetterCounts
from spark_tasks.kafka.errors import KafkaUnavailableError
from spark_tasks.kafka.records.errors import RecordTooLargeError

LARGE = b"large"
LIMIT = 1100
HANDLING = ErrorHandling(queue="dead", appender={"max_request_bytes": LIMIT})


def letters(*values):
    return pa.RecordBatch.from_pylist([{"offset": 1, "timestamp": 2, "value": value} for value in values], RAW_SCHEMA)


def values_of(batch):
    return batch.column("value").to_pylist()


def counted(counts):
    return counts.written, counts.lost


@pytest.mark.parametrize("size", [100_000, LIMIT - 10])
def test_a_letter_that_is_too_large_is_found_before_others_are_appended(size, caplog):
    """An appender sends some while it encodes others: those were in the queue twice."""
    found, counts = [], LetterCounts()

    def append(_topic, raw, _on_refusal):
        for value in values_of(raw):
            if len(value) > 100:
                raise RecordTooLargeError(0, size, LIMIT, "dead")
            found.append(value)

    counts.append(HANDLING, letters(b"a", b"x" * size, b"b"), append)
    assert counted(counts) == (2, 1)
    assert found == [b"a", b"b"]
    assert "Could not produce message to dead letter queue. topic=dead: record 1 for topic 'dead' is 1" in caplog.text


def test_nothing_is_appended_if_all_letters_are_too_large():
    counts = LetterCounts()
    counts.append(HANDLING, letters(b"x" * LIMIT), lambda *_: pytest.fail("appended"))
    assert counted(counts) == (0, 1)


def test_letters_that_a_broker_refuses_are_logged_and_counted_and_not_too_often(caplog):
    """Each one had a line of its own."""
    counts = LetterCounts()

    def append(_topic, raw, on_refusal):
        for row in range(len(raw) - 1):
            on_refusal(row, RecordTooLargeError(row, 9, None, "dead"))

    counts.append(replace(HANDLING, queue="flooded"), letters(*[b"a"] * 1001), append)
    assert counted(counts) == (1, 1000)
    begin = "Could not produce message to dead letter queue. topic=flooded: a broker rejected"
    assert 90 <= caplog.text.count(begin) <= 100


@pytest.fixture
def broker(monkeypatch):
    """A broker that refuses large letters."""
    there = SimpleNamespace(values=[], opened=0, closed=0, away=False)

    class Appender:
        def __init__(self, _cluster, identity, **_options):
            assert identity is None
            self.waiting = []
            there.opened += 1

        def append(self, topic, partition, raw, on_refusal):
            assert (topic, partition, self.waiting) == ("dead", None, [])
            self.waiting = values_of(raw)
            for row, value in enumerate(self.waiting):
                if value == LARGE:
                    on_refusal(row, RecordTooLargeError(row, 9, None, "dead"))

        def flush(self):
            if there.away:
                raise KafkaUnavailableError("away")
            there.values += [value for value in self.waiting if value != LARGE]

        def close(self):
            there.closed += 1

    monkeypatch.setattr(queue_writes, "Appender", Appender)
    monkeypatch.setattr(queue_writes, "shared_cluster", lambda _: None)
    return there


def test_letters_are_written_together_and_one_that_the_broker_refuses_affects_no_others(broker):
    counts = LetterCounts()
    counts.write(ErrorHandling(queue="dead"), letters(LARGE, b"a", LARGE, b"b"))
    assert counted(counts) == (2, 2)
    assert (broker.values, broker.opened, broker.closed) == ([b"a", b"b"], 1, 1)


def test_an_outage_is_no_loss(broker):
    broker.away = True
    with pytest.raises(KafkaUnavailableError):
        LetterCounts().write(ErrorHandling(queue="dead"), letters(b"a"))
    assert broker.closed == broker.opened
