"""Sink tasks against a real broker; executors are threads here, Spark is in test_engine and the worker's tests."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import OffsetSpec

from spark_tasks.errors import ConnectError
from spark_tasks.kafka import group_io
from spark_tasks.kafka.shared_clusters import shared_cluster
from spark_tasks.sinks.positions import OffsetsMissingError
from spark_tasks.sinks.split import SinkJob
from spark_tasks.sinks.task import UPKEEP_MS
from spark_tasks.spark.context import SparkLostError
from spark_tasks.tasks import retries
from tests.rigs.support import Sleeper, wait_until
from tests.rigs.task_rigs import SinkRig

pytestmark = pytest.mark.integration


@pytest.fixture
def rig(broker: Any, tmp_path: Path) -> Iterator[SinkRig]:
    rig = SinkRig(broker.bootstrap_servers, tmp_path)
    yield rig
    rig.close()
    shared_cluster({"bootstrap_servers": [broker.bootstrap_servers], "security_protocol": "PLAINTEXT"})


def numbers(count: int, start: int = 0) -> list[str]:
    return [str(n) for n in range(start, start + count)]


def test_a_sink_reads_commits_and_resumes(rig: SinkRig) -> None:
    rig.produce(1000)
    loop = rig.start()
    loop.await_records(1000)
    loop.stop()
    assert sorted(rig.values(), key=int) == numbers(1000)
    assert rig.values()[0::1][:3] in (["0", "2", "4"], ["1", "3", "5"]), "in the order of the partition"
    assert rig.committed() == {0: 500, 1: 500}
    assert rig.notes.recorded("commits") == [[[500, 500]]]
    assert set(rig.used) == {rig.topic}
    rig.produce(10, start=1000)
    rig.start().await_records(10)
    assert sorted(rig.values(), key=int) == numbers(1010)


def test_an_idle_task_costs_nothing_and_wakes_at_once(rig: SinkRig) -> None:
    loop = rig.start()
    wait_until(lambda: loop.idle_ms == UPKEEP_MS, what="nothing to do but upkeep")
    assert rig.engine.jobs == 0
    for n in range(10):
        rig.produce(1, start=n)
        wait_until(lambda n=n: len(rig.values()) > n, UPKEEP_MS / 1100, "the record, before the next upkeep")
        wait_until(lambda: loop.idle_ms == UPKEEP_MS)


def test_a_sink_that_began_at_the_end_reads_what_arrived_in_idle_partitions_meanwhile(rig: SinkRig) -> None:
    latest = {"consumer.override.auto.offset.reset": "latest"}
    loop = rig.start(**latest)
    wait_until(lambda: loop.idle_ms == UPKEEP_MS, what="the positions")
    rig.producer.produce(rig.topic, b"1", partition=0)
    rig.producer.flush(20)
    loop.await_records(1)
    loop.stop()
    assert rig.committed() == {0: 1, 1: 0}
    rig.producer.produce(rig.topic, b"2", partition=1)
    rig.producer.flush(20)
    rig.start(**latest).await_records(1)
    assert rig.values() == ["1", "2"]


def test_a_paused_sink_reads_nothing_until_it_is_resumed(rig: SinkRig) -> None:
    rig.produce(10)
    loop = rig.start()
    loop.await_records(10)
    loop.order(lambda runner: runner.pause())
    wait_until(lambda: loop.idle_ms == UPKEEP_MS)
    rig.produce(10, start=10)
    runs = loop.runs
    loop.wake()
    wait_until(lambda: loop.runs > runs)
    assert (loop.records, loop.idle_ms) == (10, UPKEEP_MS)
    loop.order(lambda runner: runner.resume())
    loop.await_records(20)


def test_a_batch_is_as_large_as_the_user_allows(rig: SinkRig) -> None:
    rig.produce(100)
    loop = rig.start(**{"consumer.override.max.poll.records": "7"})
    loop.await_records(100)
    assert {len(values) for _, _, _, values in rig.notes.recorded("writes")} == {7, 1}


def test_a_batch_of_large_records_is_bounded_in_bytes(rig: SinkRig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spark_tasks.sinks.task.SinkJob", partial(SinkJob, max_bytes=8_000_000))
    for _ in range(40):
        rig.producer.produce(rig.topic, bytes(900_000), partition=0)
    assert rig.producer.flush(60) == 0, "36 MB are with the broker"
    loop = rig.start()
    loop.await_records(40, 60)
    assert len(loop.batches) == 3
    assert all(progress.bytes < 20_000_000 for _, progress in loop.batches), "at most a fetch over the bound"
    wait_until(lambda: rig.committed()[0] == 40)


def test_a_failing_writer_fails_the_task_and_nothing_is_committed(rig: SinkRig) -> None:
    rig.produce(10)
    loop = rig.start(**{"fail.partition": "1"})
    error = loop.await_error()
    assert str(error) == "not this one"
    assert "in write" in str(error.__cause__), "the executor's trace is in the task's"
    assert rig.committed() == {}
    assert rig.notes.recorded("commits") == []
    assert rig.notes.recorded("aborts") == [[[5]]], "the split that was written is told to the writer"


@pytest.mark.parametrize("lost", [False, True])
def test_a_retriable_error_repeats_the_batch(rig: SinkRig, lost: bool) -> None:
    rig.produce(10)
    if lost:
        rig.engine.lose.append(SparkLostError("the executor died"))
    loop = rig.start(retry="" if lost else "busy")
    loop.await_records(10)
    assert sorted(set(rig.values()), key=int) == numbers(10)
    wait_until(lambda: rig.committed() == {0: 5, 1: 5}, what="the offsets")


def delete_records(rig: SinkRig, before: int) -> None:
    wanted = [TopicPartition(rig.topic, partition, before) for partition in (0, 1)]
    for future in rig.admin.delete_records(wanted).values():
        future.result(20)


@pytest.mark.parametrize(("policy", "expected"), [("earliest", numbers(40, 60)), ("latest", [])])
def test_a_position_that_was_deleted_follows_the_reset_policy(
    rig: SinkRig, caplog: pytest.LogCaptureFixture, policy: str, expected: list[str]
) -> None:
    rig.produce(20)
    first = rig.start(**{"consumer.override.auto.offset.reset": "earliest"})
    first.await_records(20)
    first.stop()
    rig.produce(80, start=20)
    delete_records(rig, 30)
    loop = rig.start(**{"consumer.override.auto.offset.reset": policy})
    wait_until(lambda: caplog.text.count("continuing at") == 2)
    rig.produce(10, start=100)
    loop.await_records(len(expected) + 10)
    assert sorted(rig.values()[20:], key=int) == [*expected, *numbers(10, 100)]


def test_without_a_reset_policy_what_was_written_before_the_failure_is_committed(rig: SinkRig) -> None:
    rig.produce(20)
    first = rig.start()
    first.await_records(20)
    first.stop()
    rig.produce(80, start=20)
    for future in rig.admin.delete_records([TopicPartition(rig.topic, 1, 30)]).values():
        future.result(20)
    error = rig.start(**{"consumer.override.auto.offset.reset": "none"}).await_error()
    assert isinstance(error, OffsetsMissingError)
    assert rig.committed() == {0: 50, 1: 10}


def test_without_a_reset_policy_a_task_without_offsets_fails(rig: SinkRig) -> None:
    rig.produce(2)
    error = rig.start(**{"consumer.override.auto.offset.reset": "none"}).await_error()
    assert isinstance(error, OffsetsMissingError)
    assert rig.topic in str(error)


def test_a_recreated_topic_is_read_from_its_start(rig: SinkRig) -> None:
    rig.produce(100)
    loop = rig.start(**{"consumer.override.allow.auto.create.topics": "false"})
    loop.await_records(100)
    for future in rig.admin.delete_topics([rig.topic]).values():
        future.result(20)
    wait_until(lambda: rig.topic not in rig.admin.list_topics(timeout=10).topics)
    rig.make_topic(2)
    rig.produce(10, start=500)
    loop.await_records(110, within=40)
    assert set(rig.values()) >= set(numbers(10, 500))


def test_a_deleted_topic_does_not_delay_the_partitions_of_others(rig: SinkRig) -> None:
    """Its end cannot be found, and its offset cannot be committed."""
    other = f"{rig.topic}-other"
    rig.make_topic(2, other)
    rig.produce(10)
    rig.produce(2, other)
    loop = rig.start(topics=f"{rig.topic},{other}")
    loop.await_records(12)
    loop.order(lambda runner: runner.pause())
    rig.produce(20, start=10)
    rig.produce(2, other)
    rig.admin.delete_topics([other])[other].result(20)
    loop.order(lambda runner: runner.resume())
    wait_until(lambda: sorted(map(int, rig.values()))[-20:] == list(range(10, 30)), 20, "the other topic's records")
    wait_until(lambda: rig.committed() == {0: 15, 1: 15}, 20, "their offsets")
    assert len([value for value in rig.values() if int(value) >= 10]) == 20, "they are written once"


def test_a_batch_goes_on_without_a_partition_that_cannot_be_read(rig: SinkRig) -> None:
    """The records of the others are written once. A broker may still serve a topic for a moment after its deletion."""
    other = f"{rig.topic}-other"
    rig.make_topic(2, other)
    rig.engine.free.clear()
    rig.produce(10)
    rig.produce(2, other, start=100)
    loop = rig.start(topics=f"{rig.topic},{other}")
    wait_until(lambda: rig.engine.jobs > 0, 20, "a batch")
    rig.admin.delete_topics([other])[other].result(20)
    rig.engine.free.set()
    wait_until(lambda: {*numbers(10)} <= {*rig.values()}, 20, "the records of the others")
    wait_until(lambda: rig.committed() == {0: 5, 1: 5}, 20, "their offsets")
    assert loop.error is None
    assert sorted(int(value) for value in rig.values() if int(value) < 100) == list(range(10))


def test_offsets_are_committed_although_the_next_batch_hangs(
    rig: SinkRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group_io, "COMMIT_PAUSE_S", 1.5)
    loop = rig.start()
    for count in (10, 20):  # the second commit is not due at once
        rig.produce(10)
        loop.await_records(count)
    rig.engine.free.clear()
    rig.produce(10)
    wait_until(lambda: rig.committed() == {0: 10, 1: 10}, 10, "the offsets of both batches")
    rig.engine.free.set()
    loop.await_records(30)


@pytest.mark.parametrize("writer", ["", "resumable"])  # the second one also asks its target where to resume
def test_a_task_whose_target_is_away_delays_no_rebalance(
    rig: SinkRig, monkeypatch: pytest.MonkeyPatch, writer: str
) -> None:
    """It used to join at the end of its pause, and so long all other tasks of the connector stood still."""
    (rig.notes.path / "down").touch()
    rig.produce(2)
    away = rig.start(0, writer=writer, away="yes")
    wait_until(lambda: away.idle_ms > 100, 20, "the third attempt has failed")
    for name in ("FIRST_WAIT_MS", "LONGEST_WAIT_MS"):
        monkeypatch.setattr(retries, name, 60_000)
    wait_until(lambda: away.idle_ms > 1000, 20, "a pause that does not end here")
    assert away.idle_ms <= UPKEEP_MS, "meanwhile it shows that it lives"
    rig.start(1, writer=writer).await_records(1)


def test_a_batch_that_waits_survives_the_end_of_the_membership(
    rig: SinkRig, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The commit of the batch before is refused while it waits for a process. It is read again."""
    monkeypatch.setattr(group_io, "COMMIT_PAUSE_S", 4.0)
    loop = rig.start(**{
        "writer": "resumable", "errors.tolerance": "all", "errors.deadletterqueue.topic.name": f"dead-{rig.name}",
        "errors.deadletterqueue.topic.replication.factor": "1", "errors.deadletterqueue.context.headers.enable": "true",
        "consumer.override.session.timeout.ms": "2000", "consumer.override.max.poll.interval.ms": "2500",
    })
    for count in (10, 20):
        rig.produce(10, start=count - 10)
        loop.await_records(count)
    rig.engine.free.clear()
    rig.produce(10, start=20)
    wait_until(lambda: "may be written again" in caplog.text, 30, "a commit that is refused")
    rig.engine.free.set()
    wait_until(lambda: loop.error or {*rig.values()} == {*numbers(30)}, 30, "the rest")
    assert loop.error is None


def test_tasks_share_the_partitions_and_take_over_those_of_a_stopped_task(rig: SinkRig) -> None:
    first = rig.start(0, **{"tasks.max": "2"})
    second = rig.start(1, **{"tasks.max": "2"})
    written = 0

    def both() -> bool:
        nonlocal written
        rig.produce(20, start=written)
        written += 20
        before = first.records, second.records
        wait_until(lambda: first.records + second.records >= written)
        return first.records > before[0] and second.records > before[1]

    wait_until(both, 30, "both to read")
    assert sorted(set(rig.values()), key=int) == numbers(written)
    second.stop()
    rig.produce(20, start=written)
    wait_until(lambda: set(rig.values()) == set(numbers(written + 20)))
    assert len(rig.values()) == written + 20, "orderly handovers double nothing"


def test_a_member_that_was_removed_during_its_batch_does_not_commit(rig: SinkRig) -> None:
    rig.produce(10)
    loop = rig.start(slow="3", **{"consumer.override.max.poll.interval.ms": "1000"})
    loop.await_records(10)
    aborts = rig.notes.recorded("aborts")  # on a busy machine the second attempt may take too long as well
    assert aborts == [[[5, 5]]] * max(1, len(aborts))
    assert len(rig.values()) == 10 * (1 + len(aborts)), "the slow batch was written and then read again"
    assert rig.notes.recorded("commits") == [[[5, 5]]]


def test_a_member_suspended_past_its_session_joins_again_first(rig: SinkRig, monkeypatch: pytest.MonkeyPatch) -> None:
    sleeper = Sleeper(monkeypatch, "spark_tasks.kafka.membership")
    rig.produce(10)
    rig.engine.free.clear()
    loop = rig.start(**{"consumer.override.session.timeout.ms": "60000"})
    wait_until(lambda: rig.engine.jobs == 1)
    sleeper.wake()
    sleeper.pulse.beat()
    rig.engine.free.set()
    loop.await_records(10)
    assert len(rig.values()) == 20, "the batch that was slept over counts for nothing"
    assert rig.notes.recorded("commits") == [[[5, 5]]]
    assert rig.notes.recorded("aborts") == [[[5, 5]]]


def test_a_sink_with_its_own_offsets_decides_where_to_resume(rig: SinkRig) -> None:
    rig.produce(20)
    rig.start(writer="resumable", resume="7").await_records(6)
    assert sorted(rig.values(), key=int) == numbers(6, 14)


def test_a_sink_that_stored_a_part_of_a_failed_batch_gets_the_rest(rig: SinkRig) -> None:
    rig.produce(20)
    rig.start(writer="resumable", half="7").await_records(6)
    writes = [offsets for _, _, offsets, _ in rig.notes.recorded("writes")]
    assert writes == [list(range(10))] * 2 + [[7, 8, 9]] * 2
    wait_until(lambda: rig.committed() == {0: 10, 1: 10})


def test_topics_regex_includes_topics_created_later(rig: SinkRig) -> None:
    rig.produce(4)
    loop = rig.start(topics="", **{
        "topics.regex": f"topic-{rig.name}.*", "consumer.override.metadata.max.age.ms": "500",
    })
    loop.await_records(4)
    rig.make_topic(2, rig.topic + "-b")
    rig.produce(4, rig.topic + "-b")
    loop.await_records(8)
    assert set(rig.used) == {rig.topic, rig.topic + "-b"}


def test_read_committed_waits_for_commits_and_skips_aborted_records(rig: SinkRig) -> None:
    loop = rig.start(**{"consumer.override.isolation.level": "read_committed"})
    producer = Producer({"bootstrap.servers": rig.bootstrap, "transactional.id": rig.name})
    producer.init_transactions(20)
    for values, commit in ((("a", "b"), False), (("c", "d"), True)):
        producer.begin_transaction()
        for value in values:
            producer.produce(rig.topic, value.encode(), partition=0)
        producer.flush(20)
        if commit:
            runs = loop.runs
            loop.wake()
            wait_until(lambda: loop.runs > runs)  # noqa: B023
            assert rig.values() == []
            producer.commit_transaction(20)
        else:
            producer.abort_transaction(20)
    loop.await_records(2)
    assert rig.values() == ["c", "d"]
    wait_until(lambda: rig.committed() == {0: 6, 1: 0} or rig.committed() == {0: 6}, what="the marker to be passed")


def test_a_plain_pyspark_writer_receives_rows(rig: SinkRig) -> None:
    rig.produce(2)
    rig.start(writer="rows", **{"connector.class": "tests.rigs.task_plugins.RowsConnector"}).await_records(2)
    rows = [row for (rows,) in rig.notes.recorded("rows") for row in rows]
    assert sorted(rows, key=str) == [{"value": "0"}, {"value": "1"}]


def test_stop_withdraws_a_batch_that_waits_for_spark(rig: SinkRig) -> None:
    rig.engine.free.clear()
    rig.produce(10)
    loop = rig.start()
    wait_until(lambda: rig.engine.jobs == 1)
    loop.stop()
    assert loop.error is None
    assert rig.committed() == {}


def test_cancel_abandons_a_hanging_batch(rig: SinkRig) -> None:
    rig.produce(10)
    loop = rig.start(slow="15")
    wait_until((rig.notes.path / "slow.once").exists)
    loop.runner.cancel()
    assert isinstance(loop.await_error(within=10), ConnectError), "long before the batch would have ended"
    assert rig.committed() == {}


def test_a_batch_that_is_submitted_after_its_task_was_abandoned_is_cancelled(
    rig: SinkRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The plan may have taken longer than the task had to stop; the writer may hang as well."""
    rig.engine.free.clear()
    submit = rig.engine.submit
    rig.produce(10)
    loop = rig.start()

    def cancelled_meanwhile(task: str, splits: Any) -> Any:
        loop.runner.cancel()
        return submit(task, splits)

    monkeypatch.setattr(rig.engine, "submit", cancelled_meanwhile)
    assert "the batch of" in str(loop.await_error(within=10))
    loop.stop()
    assert rig.values() == []


def test_a_wrong_converter_fails_at_the_start(rig: SinkRig) -> None:
    error = rig.start(**{"value.converter": "NoSuchConverter"}).await_error()
    assert "NoSuchConverter" in str(error)


def test_a_session_that_the_brokers_refuse_is_explained(rig: SinkRig) -> None:
    """Below the test broker's group.min.session.timeout.ms."""
    session, heartbeat = (f"consumer.override.{key}.ms" for key in ("session.timeout", "heartbeat.interval"))
    loop = rig.start(**{session: "100", heartbeat: "50"})
    error = str(loop.await_error())
    assert f"joining the consumer group connect-{rig.name}: Invalid value 100 for configuration {session}" in error


def test_committed_offsets_show_the_lag_to_kafkas_tools(rig: SinkRig) -> None:
    rig.produce(6)
    rig.start().await_records(6)
    ends = rig.admin.list_offsets({TopicPartition(rig.topic, p): OffsetSpec.latest() for p in (0, 1)})
    found = {tp.partition: future.result(20).offset for tp, future in ends.items()}
    wait_until(lambda: rig.committed() == found, what="the offsets")
