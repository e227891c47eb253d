"""Bad records of sinks and sources against a real broker: what is skipped, where it goes, what fails the task."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, TopicPartition

from spark_tasks.errors import ToleranceExceededError
from tests.integration.test_sink_task import SinkRig
from tests.integration.test_source_task import SourceRig
from tests.rigs.support import wait_until

pytestmark = pytest.mark.integration

JSON = "org.apache.kafka.connect.json.JsonConverter"
TRANSFORMS = "org.apache.kafka.connect.transforms."
NUMBERS = {"value.converter": "org.apache.kafka.connect.converters.LongConverter"}
TOLERANT = {
    "errors.tolerance": "all", "errors.deadletterqueue.topic.replication.factor": "1",
    "errors.deadletterqueue.context.headers.enable": "true", "errors.log.enable": "true",
}  # fmt: skip


@pytest.fixture
def sink(broker: Any, tmp_path: Path) -> Iterator[SinkRig]:
    rig = SinkRig(broker.bootstrap_servers, tmp_path)
    yield rig
    rig.close()


@pytest.fixture
def source(broker: Any, tmp_path: Path) -> Iterator[SourceRig]:
    rig = SourceRig(broker.bootstrap_servers, tmp_path)
    yield rig
    rig.close()


def letters(bootstrap: str, topic: str) -> list[tuple[bytes | None, dict[str, str]]]:
    """Value and headers of all records of a topic, those of committed transactions only."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": uuid.uuid4().hex, "enable.partition.eof": True})
    consumer.assign([TopicPartition(topic, 0, 0)])
    found = []
    while True:
        message = consumer.poll(20)
        assert message is not None
        if message.error() is not None:
            assert message.error().code() == KafkaError._PARTITION_EOF
            consumer.close()
            return found
        headers = {k.removeprefix("__connect.errors."): v.decode() for k, v in message.headers() or () if v is not None}
        found.append((message.value(), headers))


def test_a_writer_refuses_records_and_the_rest_is_written_in_order(sink: SinkRig, caplog: Any) -> None:
    sink.produce(1000)
    dead = f"dead-{sink.name}"
    loop = sink.start(**TOLERANT, **{"refuse": "100,101,102,998", "errors.deadletterqueue.topic.name": dead})
    loop.await_records(1000, 60)
    refused = {"100", "101", "102", "998"}
    for parity in (0, 1):
        seen = [value for value in sink.values() if int(value) % 2 == parity]
        assert seen == [str(n) for n in range(1000) if n % 2 == parity and str(n) not in refused]
    assert {partition: sink.committed()[partition] for partition in (0, 1)} == {0: 500, 1: 500}
    found = letters(sink.bootstrap, dead)
    assert sorted(value.decode() for value, _ in found) == sorted(refused)
    [of_100] = [headers for value, headers in found if value == b"100"]
    trace = of_100.pop("exception.stacktrace")
    assert "ValueError: the target takes no such value" in trace
    assert of_100 == {
        "topic": sink.topic, "partition": "0", "offset": "50", "connector.name": sink.name, "task.id": "0",
        "stage": "TASK_PUT", "class.name": "org.apache.kafka.connect.sink.SinkTask",
        "exception.class.name": "builtins.ValueError", "exception.message": "the target takes no such value",
    }
    assert caplog.text.count(f"Error encountered in task {sink.name}-0. Executing stage 'TASK_PUT' with class ") == 4


def test_a_writer_reports_records_and_an_outage_is_none(sink: SinkRig) -> None:
    sink.produce(100)
    dead = f"dead-{sink.name}"
    loop = sink.start(**TOLERANT, **{"report": "7,42", "down": "yes", "errors.deadletterqueue.topic.name": dead})
    loop.await_records(100, 60)
    found = letters(sink.bootstrap, dead)
    assert {(value, headers["exception.message"]) for value, headers in found} == {
        (b"42", "42 is reported"), (b"7", "7 is reported"),
    }, "twice, where the other partition's split was done before the outage"


def test_none_fails_the_task_and_its_letter_is_sent(sink: SinkRig) -> None:
    sink.produce(10)
    dead = f"dead-{sink.name}"
    loop = sink.start(**{**TOLERANT, **NUMBERS, "errors.tolerance": "none", "errors.deadletterqueue.topic.name": dead})
    error = loop.await_error(60)
    assert isinstance(error, ToleranceExceededError)
    assert str(error).startswith(f"Tolerance exceeded in error handler: value of record {sink.topic}-")
    wait_until(lambda: letters(sink.bootstrap, dead), 10, "the letter")
    assert {headers["stage"] for _, headers in letters(sink.bootstrap, dead)} == {"VALUE_CONVERTER"}
    assert sink.committed() == {}


def test_a_sources_bad_records_have_a_queue_too(source: SourceRig) -> None:
    source.make_topic(1)
    source.limit(50)
    dead = f"dead-{source.name}"
    cast = {"transforms": "cut,cast", "transforms.cut.type": TRANSFORMS + "RegexRouter",
            "transforms.cut.regex": "(.*)", "transforms.cut.replacement": "$1",
            "transforms.cast.type": TRANSFORMS + "Cast$Value", "transforms.cast.spec": "int32"}
    loop = source.start(**TOLERANT, **cast, **{"errors.deadletterqueue.topic.name": dead, "plain.from": "5"})
    loop.await_records(45, 60)
    assert source.values() == [str(n) for n in range(5, 50)]
    found = letters(source.bootstrap, dead)
    assert [value.decode() for value, _ in found] == [f"0:{n}" for n in range(5)]
    assert found[0][1]["stage"] == "TRANSFORMATION"
    assert found[0][1]["class.name"] == TRANSFORMS + "Cast$Value"
    assert found[0][1]["topic"] == source.topic
    assert "offset" not in found[0][1]


def test_records_that_are_too_large_are_skipped(source: SourceRig) -> None:
    source.make_topic(1)
    source.limit(10)
    dead = f"dead-{source.name}"
    loop = source.start(**TOLERANT, **{"errors.deadletterqueue.topic.name": dead, "large": "3",
                                       "producer.override.max.request.size": "10000"})
    loop.await_records(9, 60)
    assert source.values() == [f"0:{n}" for n in range(10) if n != 3]
    [(value, headers)] = letters(source.bootstrap, dead)
    assert value is None
    assert (headers["stage"], headers["exception.class.name"]) == (
        "KAFKA_PRODUCE", "org.apache.kafka.common.errors.RecordTooLargeException")
