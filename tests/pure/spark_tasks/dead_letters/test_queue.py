"""Letters that are too large, for the producer or only for the broker."""

from __future__ import annotations

from types import SimpleNamespace

import pyarrow as pa
import pytest

from spark_tasks.data.columns import RAW_SCHEMA
from spark_tasks.dead_letters import queue
from spark_tasks.dead_letters.error_handling import ErrorHandling
from spark_tasks.dead_letters.queue import append_letters, write_letters
from spark_tasks.kafka.errors import KafkaUnavailableError
from spark_tasks.kafka.records.errors import RecordTooLargeError

LARGE = b"large"
LIMIT = 1100
HANDLING = ErrorHandling(queue="dead", appender={"max_request_bytes": LIMIT})


def letters(*values):
    return pa.RecordBatch.from_pylist([{"offset": 1, "timestamp": 2, "value": value} for value in values], RAW_SCHEMA)


def values_of(batch):
    return batch.column("value").to_pylist()


@pytest.mark.parametrize("size", [100_000, LIMIT - 10])
def test_a_letter_that_is_too_large_is_found_before_others_are_appended(size, caplog):
    """An appender sends some while it encodes others: those were in the queue twice."""
    found = []

    def append(_topic, raw):
        for value in values_of(raw):
            if len(value) > 100:
                raise RecordTooLargeError(0, size, LIMIT, "dead")
            found.append(value)

    assert append_letters(HANDLING, letters(b"a", b"x" * size, b"b"), append) == (2, 1)
    assert found == [b"a", b"b"]
    assert "Could not produce message to dead letter queue. topic=dead: record 1 for topic 'dead' is 1" in caplog.text


def test_nothing_is_appended_if_all_letters_are_too_large():
    assert append_letters(HANDLING, letters(b"x" * LIMIT), lambda *_: pytest.fail("appended")) == (0, 1)


@pytest.fixture
def broker(monkeypatch):
    """A broker that refuses large letters, which appenders learn when they flush; they are of no use afterwards."""
    there = SimpleNamespace(values=[], opened=0, closed=0, away=False)

    class Appender:
        def __init__(self, _cluster, identity, **_options):
            assert identity is None
            self.waiting = []
            there.opened += 1

        def append(self, topic, partition, raw):
            assert (topic, partition, self.waiting) == ("dead", None, [])
            self.waiting = values_of(raw)

        def flush(self):
            if there.away:
                raise KafkaUnavailableError("away")
            if LARGE in self.waiting:
                raise RecordTooLargeError(0, 9, None, "dead")
            there.values += self.waiting

        def close(self):
            there.closed += 1

    monkeypatch.setattr(queue, "Appender", Appender)
    monkeypatch.setattr(queue, "shared_cluster", lambda _: None)
    return there


def test_letters_are_written_together(broker):
    assert write_letters(ErrorHandling(queue="dead"), letters(b"a", b"b")) == (2, 0)
    assert (broker.values, broker.opened, broker.closed) == ([b"a", b"b"], 1, 1)


def test_a_letter_that_the_broker_refuses_affects_no_others(broker, caplog):
    assert write_letters(ErrorHandling(queue="dead"), letters(LARGE, b"a", LARGE)) == (1, 2)
    assert (broker.values, broker.closed) == ([b"a"], broker.opened)
    assert caplog.text.count("Could not produce message to dead letter queue. topic=dead: a broker rejected") == 2


def test_an_outage_is_no_loss(broker):
    broker.away = True
    with pytest.raises(KafkaUnavailableError):
        write_letters(ErrorHandling(queue="dead"), letters(b"a"))
    assert broker.closed == broker.opened
