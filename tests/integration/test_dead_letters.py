"""Bad records of sinks and sources against a real broker: what is skipped, where it goes, what fails the task."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from heeler.embedded_kafka.broker import EmbeddedBroker
from spark_tasks.errors import ConnectError, RetriableError, ToleranceExceededError
from spark_tasks.kafka.shared_clusters import close_shared
from tests.rigs.second_broker import SecondBroker
from tests.rigs.support import wait_until
from tests.rigs.task_rigs import SinkRig, SourceRig
from tests.rigs.topic_reader import letters, read_topic

pytestmark = pytest.mark.integration

JSON = "org.apache.kafka.connect.json.JsonConverter"
TRANSFORMS = "org.apache.kafka.connect.transforms."
NUMBERS = {"value.converter": "org.apache.kafka.connect.converters.LongConverter"}
TOLERANT = {
    "errors.tolerance": "all", "errors.deadletterqueue.topic.replication.factor": "1",
    "errors.deadletterqueue.context.headers.enable": "true", "errors.log.enable": "true",
}  # fmt: skip


def test_a_writer_refuses_records_and_the_rest_is_written_in_order(sink: SinkRig, caplog: Any) -> None:
    sink.produce(1000)
    dead = f"dead-{sink.name}"
    refused = {"100", "101", "102", "104", "998", "1500"}
    loop = sink.start(**TOLERANT, **{"refuse": ",".join(refused), "errors.deadletterqueue.topic.name": dead})
    loop.await_records(1000, 60)
    sink.produce(1000, start=1000)
    loop.await_records(2000, 60)
    for parity in (0, 1):
        seen = [value for value in sink.values() if int(value) % 2 == parity]
        assert seen == [str(n) for n in range(2000) if n % 2 == parity and str(n) not in refused]
    wait_until(lambda: sink.committed() == {0: 1000, 1: 1000}, what="the offsets")
    [after_many] = [values for _, _, _, values in sink.notes.recorded("writes") if values[0] == "1000"]
    assert len(after_many) < 125, "where many were refused, the next batch is not tried as a whole first"
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
    assert caplog.text.count(f"Error encountered in task {sink.name}-0. Executing stage 'TASK_PUT' with class ") == 6


def test_a_writer_reports_records_and_an_outage_is_not_a_bad_record(sink: SinkRig) -> None:
    sink.produce(100)
    dead = f"dead-{sink.name}"
    loop = sink.start(**TOLERANT, **{"report": "7,42", "down": "yes", "errors.deadletterqueue.topic.name": dead})
    loop.await_records(100, 60)
    found = letters(sink.bootstrap, dead)
    assert {(value, headers["exception.message"]) for value, headers in found} == {
        (b"42", "42 is reported"), (b"7", "7 is reported"),
    }, "twice, where the other partition's split was done before the outage"


def test_tolerance_none_fails_the_task_and_sends_a_dead_letter(sink: SinkRig) -> None:
    sink.produce(10)
    dead = f"dead-{sink.name}"
    loop = sink.start(**{**TOLERANT, **NUMBERS, "errors.tolerance": "none", "errors.deadletterqueue.topic.name": dead})
    error = loop.await_error(60)
    assert isinstance(error, ToleranceExceededError)
    assert str(error).startswith(f"Tolerance exceeded in error handler: value of record {sink.topic}-")
    wait_until(lambda: letters(sink.bootstrap, dead), 10, "the letter")
    assert {headers["stage"] for _, headers in letters(sink.bootstrap, dead)} == {"VALUE_CONVERTER"}
    assert sink.committed() == {}


CAST = {"transforms": "cut,cast", "transforms.cut.type": TRANSFORMS + "RegexRouter",
        "transforms.cut.regex": "(.*)", "transforms.cut.replacement": "$1",
        "transforms.cast.type": TRANSFORMS + "Cast$Value", "transforms.cast.spec": "int32"}


def test_a_letter_of_a_source_that_only_the_broker_finds_too_large_affects_no_others(
    source: SourceRig, caplog: Any
) -> None:
    """It failed the task, again and again."""
    dead = f"dead-{source.name}"
    source.make_topic(1)
    source.make_topic(topic=dead, **{"max.message.bytes": "10000"})
    source.limit(10)
    loop = source.start(**TOLERANT, **CAST, **{
        "errors.deadletterqueue.topic.name": dead, "plain.from": "5", "large": "3"})
    loop.await_records(5, 60)
    assert source.values() == [str(n) for n in range(5, 10)]
    assert [value for value, _ in letters(source.bootstrap, dead)] == [b"0:0", b"0:1", b"0:2", b"0:4"]
    wait_until(lambda: source.metrics.lost_letters, 10, "the result of the batch")
    assert (source.metrics.letters, source.metrics.lost_letters) == (4, 1)
    assert f"Could not produce message to dead letter queue. topic={dead}: a broker rejected" in caplog.text


def test_all_records_without_keys_for_a_compacted_topic_are_bad_ones(source: SourceRig) -> None:
    dead = f"dead-{source.name}"
    source.make_topic(1, **{"cleanup.policy": "compact"})
    source.limit(20)
    source.start(**TOLERANT, **{"errors.deadletterqueue.topic.name": dead, "keyless": "true"})
    wait_until(lambda: source.metrics.letters == 20, 60, "the result of the batch")
    found = letters(source.bootstrap, dead)
    assert [value.decode() for value, _ in found] == [f"0:{n}" for n in range(20)]
    assert "Compacted topic cannot accept message without key" in found[0][1]["exception.message"]
    assert source.metrics.records["write"] == 0
    assert source.values() == []


def test_letters_without_keys_for_a_compacted_queue_are_logged_and_counted(sink: SinkRig, caplog: Any) -> None:
    """As in Kafka Connect; they failed the task. A record with a key has its letter."""
    dead = f"dead-{sink.name}"
    sink.make_topic(topic=dead, **{"cleanup.policy": "compact"})
    sink.produce(4)
    sink.producer.produce(sink.topic, b"4", key=b"k", partition=0)
    sink.producer.flush(20)
    loop = sink.start(**TOLERANT, **NUMBERS, **{"errors.deadletterqueue.topic.name": dead})
    loop.await_records(5, 60)
    wait_until(lambda: sink.committed() == {0: 3, 1: 2}, what="the offsets")
    assert [value for value, _ in letters(sink.bootstrap, dead)] == [b"4"]
    assert f"topic={dead}: a broker refuses a record for {dead}-0: Compacted topic cannot accept" in caplog.text


def test_bad_records_of_a_source_are_sent_to_its_dead_letter_queue(source: SourceRig) -> None:
    source.make_topic(1)
    source.limit(50)
    dead = f"dead-{source.name}"
    loop = source.start(**TOLERANT, **CAST, **{"errors.deadletterqueue.topic.name": dead, "plain.from": "5"})
    loop.await_records(45, 60)
    assert source.values() == [str(n) for n in range(5, 50)]
    found = letters(source.bootstrap, dead)
    assert [value.decode() for value, _ in found] == [f"0:{n}" for n in range(5)]
    assert found[0][1]["stage"] == "TRANSFORMATION"
    assert found[0][1]["class.name"] == TRANSFORMS + "Cast$Value"
    assert found[0][1]["topic"] == source.topic
    assert "offset" not in found[0][1]


LONG = "org.apache.kafka.connect.converters.LongConverter"
SPOILED = {"spoil": "yes", "key.converter": JSON, "value.converter": JSON, "header.converter": LONG}


def test_records_that_the_converters_of_a_source_refuse_are_dead_letters(source: SourceRig, caplog: Any) -> None:
    """The stage is named in the queue, in the log, which also has the record, and in the metrics."""
    source.make_topic(1)
    source.limit(20)
    dead = f"dead-{source.name}"
    loop = source.start(**TOLERANT, **SPOILED, **{"errors.deadletterqueue.topic.name": dead,
                                                  "errors.log.include.messages": "true"})
    loop.await_records(12, 60)
    good = [0, 5, 6, 7, 8, 9]
    found = {json.loads(message.value())["payload"]: message.timestamp()[1]
             for message in read_topic(source.bootstrap, source.topic)}
    assert list(found) == [*good, *(n + 10 for n in good)]
    assert {n: at for n, at in found.items() if n % 10 != 5} == {
        n: 1_700_000_000_000 + n for n in found if n % 10 != 5}
    assert min(found[5], found[15]) > 1_750_000_000_000, "-1 means none, so the producer sets one"
    dlq = [(headers["stage"], headers["class.name"], headers["exception.class.name"], headers["exception.message"])
           for _, headers in letters(source.bootstrap, dead)]
    no_null = "Conversion error: null value for field that is required and has no default value"
    data = "org.apache.kafka.connect.errors.DataException"
    expected = {
        "KEY_CONVERTER": (JSON, data, no_null),
        "VALUE_CONVERTER": (JSON, data, no_null),
        "HEADER_CONVERTER": (LONG, data, "Failed to serialize to long (was class java.lang.String): "),
        "KAFKA_PRODUCE": ("org.apache.kafka.connect.runtime.WorkerSourceTask",
                          "org.apache.kafka.common.InvalidRecordException", "Invalid record timestamp -86400000"),
    }
    assert sorted(dlq) == sorted((stage, *rest) for stage, rest in expected.items() for _ in range(2))
    by_stage = {(m[0], dict(m[1])["stage"]): dict(m[1]) for m in letters(source.bootstrap, dead)}
    assert all(headers["topic"] == source.topic and "offset" not in headers and "partition" not in headers
               for headers in by_stage.values())
    raw = [(m.key(), m.value(), dict(m.headers())["__connect.errors.stage"].decode())
           for m in read_topic(source.bootstrap, dead)]
    envelope = b'{"schema":{"type":"int64","optional":false},"payload":%d}'
    assert (None, envelope % 1, "KEY_CONVERTER") in raw
    assert (envelope % 2, None, "VALUE_CONVERTER") in raw
    assert (envelope % 3, envelope % 3, "HEADER_CONVERTER") in raw
    for stage, (cls, *error) in expected.items():
        begin = (f"Error encountered in task {source.name}-0. Executing stage '{stage}' with class '{cls}', "
                 f"where source record is = {{topic='{source.topic}'")
        lines = [line for line in caplog.messages if line.startswith(begin)]
        assert len(lines) == 2, caplog.text
        assert f"{error[0]}: " in lines[0]
    metrics = source.metrics
    assert metrics.errors == {"convert": 6, "write": 2}
    assert (metrics.skipped, metrics.logged, metrics.letters, metrics.lost_letters) == (8, 8, 8, 0)


@pytest.mark.parametrize(("stage", "plain"), [("KEY_CONVERTER", 1), ("KAFKA_PRODUCE", 4)])
def test_a_bad_record_of_a_source_fails_its_task(source: SourceRig, stage: str, plain: int) -> None:
    source.make_topic(1)
    source.limit(10)
    source.offsets.begin_write([({"stream": "0"}, {"at": plain})])()
    dead = f"dead-{source.name}"
    loop = source.start(**{**TOLERANT, **SPOILED, "errors.tolerance": "none",
                           "errors.deadletterqueue.topic.name": dead})
    error = loop.await_error(60)
    assert isinstance(error, ToleranceExceededError)
    assert str(error).startswith("Tolerance exceeded in error handler: ")
    wait_until(lambda: [h["stage"] for _, h in letters(source.bootstrap, dead)] == [stage], 10, "the letter")
    assert source.values() == []


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


def test_a_record_that_only_the_broker_refuses_is_skipped(source: SourceRig) -> None:
    """KIP-779; it failed the task, again and again. All others are appended, in order."""
    source.make_topic(1, **{"max.message.bytes": "10000"})
    source.limit(10)
    dead = f"dead-{source.name}"
    loop = source.start(**TOLERANT, **{"errors.deadletterqueue.topic.name": dead, "large": "3"})
    loop.await_records(9, 60)
    assert source.values() == [f"0:{n}" for n in range(10) if n != 3]
    [(value, headers)] = letters(source.bootstrap, dead)
    assert value == b"0:3" + b"x" * 20_000
    assert (headers["stage"], headers["exception.class.name"], headers["heeler.letter.produced"]) == (
        "KAFKA_PRODUCE", "org.apache.kafka.common.errors.RecordTooLargeException", "-1")
    source.limit(20)
    loop.await_records(19, 60)
    assert len(source.values()) == 19


def test_records_that_no_partition_takes_are_skipped(source: SourceRig) -> None:
    source.make_topic(1)
    source.limit(10)
    dead = f"dead-{source.name}"
    loop = source.start(**TOLERANT, **{"errors.deadletterqueue.topic.name": dead, "lost": "yes"})
    loop.await_records(7, 60)
    assert source.values() == [f"0:{n}" for n in (0, 1, 2, 6, 7, 8, 9)]
    assert sorted((value, headers["stage"], headers["exception.class.name"].rpartition(".")[2], headers[
        "exception.message"].partition(";")[0][:45]) for value, headers in letters(source.bootstrap, dead)) == [
        (b"0:3", "KAFKA_PRODUCE", "InvalidTopicException", "'bad topic!' is not a valid name of a topic: "),
        (b"0:4", "KAFKA_PRODUCE", "TimeoutException", f"partition 3 of topic {source.topic!r} does not exist"[:45]),
        (b"0:5", "KAFKA_PRODUCE", "TimeoutException", f"partition -5 of topic {source.topic!r} does not exist"[:45]),
    ]


def test_a_record_that_no_partition_takes_fails_its_task(source: SourceRig) -> None:
    source.make_topic(1)
    source.limit(10)
    error = source.start(lost="yes").await_error(60)
    assert "partition -5 of topic" in str(error)


AWAY = """
from pathlib import Path
from heeler import ConfigDef, ConfigKey, RetriableError, Type, transform

@transform(config=ConfigDef(ConfigKey("notes", Type.STRING, doc="")))
def away(record, options):
    with (Path(options["notes"]) / "attempts").open("a") as out:
        out.write("x")
    raise RetriableError("the service for lookups is away")
"""


@pytest.mark.parametrize("kind", ["sink", "source"])
def test_an_outage_of_a_transform_fails_the_task_after_the_retry_timeout(
    kind: str, broker: Any, tmp_path: Path
) -> None:
    """As in Java with errors.tolerance=none; nothing is committed, so the record is processed after a restart."""
    (tmp_path / "plugins").mkdir()
    (tmp_path / "plugins" / "away.py").write_text(AWAY)
    rig: Any = (SinkRig if kind == "sink" else SourceRig)(broker.bootstrap_servers, tmp_path)
    rig.worker["plugin.path"] = str(tmp_path / "plugins")
    try:
        if kind == "sink":
            rig.produce(1)
        else:
            rig.make_topic(1)
            rig.limit(1)
        loop = rig.start(**{
            "transforms": "t", "transforms.t.type": "away", "transforms.t.notes": str(tmp_path),
            "errors.retry.timeout": "700", "errors.retry.delay.max.ms": "60000"})
        error = loop.await_error(60)
        attempts = (tmp_path / "attempts").read_text()
        assert isinstance(error, ToleranceExceededError)
        assert str(error) == (
            "Tolerance exceeded in error handler: transforms.t (away.away): the service for lookups is away")
        assert isinstance(error.__cause__, RetriableError)
        assert error.java_class == "org.apache.kafka.connect.errors.ConnectException"
        assert len(attempts) >= 3, "one at once, one after 300 ms, one when the time is up"
        if kind == "sink":
            assert rig.committed() == {}
        else:
            assert rig.offsets.written == []
    finally:
        rig.close()


def test_an_outage_of_the_target_is_retried_without_a_limit(sink: SinkRig, caplog: Any) -> None:
    """As in Java, which retries `put` regardless of errors.retry.timeout."""
    sink.produce(2)
    (sink.notes.path / "down").write_text("")
    loop = sink.start(**{**TOLERANT, "away": "yes", "errors.retry.timeout": "1", "errors.retry.delay.max.ms": "1"})
    wait_until(lambda: caplog.text.count("the target is away") >= 4, 30, "retries")
    assert loop.error is None
    (sink.notes.path / "down").unlink()
    loop.await_records(2, 60)
    assert sorted(sink.values()) == ["0", "1"]


def test_the_queues_topic_is_created_or_an_impossible_replication_factor_refused(sink: SinkRig) -> None:
    """-1 is the brokers' default. A factor above the number of brokers fails the task at its start, as in Java."""
    sink.produce(2)
    bad = {**TOLERANT, **NUMBERS}
    queue = "errors.deadletterqueue.topic."
    loop = sink.start(**{**bad, f"{queue}name": f"dead-{sink.name}", f"{queue}replication.factor": "-1"})
    loop.await_records(2, 60)
    made = sink.admin.list_topics(timeout=20).topics[f"dead-{sink.name}"]
    assert [len(partition.replicas) for partition in made.partitions.values()] == [1]
    many = sink.start(**{**bad, f"{queue}name": f"many-{sink.name}", f"{queue}replication.factor": "2"}).await_error(60)
    assert isinstance(many, ConnectError)
    assert str(many).startswith(f"Could not initialize dead letter queue with topic=many-{sink.name}: ")
    assert "replication factor" in str(many).lower()
    assert f"many-{sink.name}" not in sink.admin.list_topics(timeout=20).topics


@pytest.fixture(scope="module")
def two_brokers() -> Iterator[str]:
    with EmbeddedBroker(quick=True, heap_mb=256) as first, SecondBroker(first) as second:
        yield f"{first.bootstrap_servers},{second.bootstrap_servers}"
        close_shared()  # or they would look for these brokers until the end of the session


@pytest.mark.parametrize("kind", [SinkRig, SourceRig])
def test_two_brokers_have_two_replicas_of_a_queue_but_not_three(
    kind: type[SinkRig | SourceRig], two_brokers: str, tmp_path: Path
) -> None:
    """Three is the default. The error is Kafka Connect's, with the brokers' reason."""
    rig = kind(two_brokers, tmp_path)
    try:
        wait_until(lambda: len(rig.admin.list_topics(timeout=20).brokers) == 2, 60, "two brokers")
        if isinstance(rig, SinkRig):
            rig.produce(2)
        else:
            rig.make_topic()
            rig.limit(2)
        dead, factor = f"dead-{rig.name}", "errors.deadletterqueue.topic.replication.factor"
        bad = {**TOLERANT, "errors.deadletterqueue.topic.name": dead, "transforms": "part",
               "transforms.part.type": TRANSFORMS + "ExtractField$Value", "transforms.part.field": "of a text"}
        del bad[factor]
        error = rig.start(**bad).await_error(60)
        assert type(error) is ConnectError
        assert re.fullmatch(
            f"Could not initialize dead letter queue with topic={dead}: .*The target replication factor of 3 cannot be "
            r"reached because only 2 broker\(s\) are registered.*", str(error))
        assert dead not in rig.admin.list_topics(timeout=20).topics
        rig.start(**bad, **{factor: "2"})
        wait_until(lambda: len(letters(rig.bootstrap, dead)) == 2, 60, "the letters")
        [partition] = rig.admin.list_topics(dead, timeout=20).topics[dead].partitions.values()
        assert sorted(partition.replicas) == sorted(partition.isrs) == [1, 2]
    finally:
        rig.close()
