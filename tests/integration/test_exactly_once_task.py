"""Exactly-once source tasks: transactions, boundaries, failures, fencing. A real broker; threads for executors."""

from __future__ import annotations

import pickle
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from spark_tasks.errors import ConnectError
from spark_tasks.kafka.errors import ProducerFencedError
from spark_tasks.kafka.records.errors import RecordTooLargeError
from spark_tasks.spark.context import SparkLostError
from storage.offsets.stores import OffsetStores
from tests.rigs.exactly_once_tasks import Guard, OnceRig
from tests.rigs.support import wait_until
from tests.rigs.topic_reader import letters, read_topic
from tests.rigs.workers import Kafka

pytestmark = pytest.mark.integration


@pytest.fixture
def rig(once: OnceRig) -> OnceRig:
    return once


def numbers(end: int, start: int = 0) -> list[str]:
    return [f"0:{n}" for n in range(start, end)]


def offset(at: int) -> list[Any]:
    return [({"stream": "0"}, {"at": at})]


def test_records_and_offsets_are_committed_in_one_transaction_and_resumed(rig: OnceRig) -> None:
    rig.limit(2500)
    guard = Guard()
    loop = rig.start(guard)
    loop.await_records(2500)
    loop.stop()
    assert guard.asked == ["fence", "verify"]
    assert rig.values() == numbers(2500)
    assert rig.offsets() == offset(2500)
    assert rig.notes.recorded("commits") == [[{"0": at}] for at in (1000, 2000, 2500)]
    rig.limit(2600)
    again = rig.start()
    again.await_records(100)
    again.stop()
    assert rig.values() == numbers(2600)


def test_a_batch_that_fails_halfway_is_repeated_and_visible_once(rig: OnceRig) -> None:
    rig.limit(3000)
    rig.engine.lose.append(SparkLostError("before it ran"))
    loop = rig.start(**{"break": "1000", "retry": "later"})
    wait_until(lambda: len(rig.values(committed=False)) == 1500, 30, "the first half of the second batch")
    (rig.notes.path / "half.seen").touch()
    error = loop.await_error()
    assert isinstance(error, ConnectionResetError)  # a plugin's own error is not retriable
    again = rig.start(**{"break": "1000", "retry": "later"})
    again.await_records(2000)
    again.stop()
    assert rig.values() == numbers(3000)
    assert len(rig.values(committed=False)) == 3500, "half a batch was written and aborted"


def test_dead_letters_are_in_the_transaction_of_their_batch(rig: OnceRig) -> None:
    """The first half of the second batch, with a bad record in it, is written, aborted and written again."""
    rig.limit(3000)
    options = {
        "break": "1000", "large": "1200", "producer.override.max.request.size": "10000", "errors.tolerance": "all",
        "errors.deadletterqueue.topic.name": f"{rig.topic}-dead",
        "errors.deadletterqueue.topic.replication.factor": "1",
        "errors.deadletterqueue.context.headers.enable": "true",
    }  # fmt: skip
    loop = rig.start(**options)
    wait_until(lambda: len(rig.values(committed=False)) == 1499, 60, "the first half of the second batch")
    assert letters(rig.bootstrap, f"{rig.topic}-dead") == [], "not committed"
    (rig.notes.path / "half.seen").touch()
    assert isinstance(loop.await_error(60), ConnectionResetError)
    again = rig.start(**options)
    again.await_records(1999, 60)
    again.stop()
    assert rig.values() == [number for number in numbers(3000) if number != "0:1200"]
    [(value, headers)] = letters(rig.bootstrap, f"{rig.topic}-dead")
    assert (value, headers["stage"], headers["topic"]) == (None, "KAFKA_PRODUCE", rig.topic)


def test_a_record_that_a_broker_refuses_leaves_the_transaction_usable(rig: OnceRig) -> None:
    """If errors are tolerated, it is a bad record. Its letter is in the transaction of the others."""
    dead, topic = f"{rig.topic}-dead", rig.topic
    Kafka(rig.bootstrap).configure(topic, "max.message.bytes", "10000")
    rig.limit(50)
    loop = rig.start(**{
        "errors.tolerance": "all", "errors.deadletterqueue.topic.name": dead, "large": "3",
        "errors.deadletterqueue.topic.replication.factor": "1",
        "errors.deadletterqueue.context.headers.enable": "true",
    })  # fmt: skip
    loop.await_records(49, 60)
    rig.limit(60)
    loop.await_records(59, 60)
    loop.stop()
    assert rig.values() == numbers(3) + numbers(60, 4)
    [(value, headers)] = letters(rig.bootstrap, dead)
    assert (len(value) > 10_000, headers["stage"], headers["topic"]) == (True, "KAFKA_PRODUCE", topic)
    assert len(list(read_topic(rig.bootstrap, topic, committed=False))) == 59, "nothing was aborted"


def test_a_letter_that_a_broker_refuses_leaves_the_transaction_usable(rig: OnceRig) -> None:
    """It is logged; all others and the records are in the transaction once, and the next one has no gap."""
    dead = f"{rig.topic}-dead"
    rig.make_topic(topic=dead, **{"max.message.bytes": "10000"})
    rig.limit(50)
    loop = rig.start(**{
        "errors.tolerance": "all", "errors.deadletterqueue.topic.name": dead, "plain.from": "55", "large": "3",
        "transforms": "cast", "transforms.cast.type": "org.apache.kafka.connect.transforms.Cast$Value",
        "transforms.cast.spec": "int32", "errors.deadletterqueue.context.headers.enable": "true",
    })  # fmt: skip
    wait_until(lambda: len(letters(rig.bootstrap, dead)) == 49, 60, "the letters of the first batch")
    rig.limit(60)
    loop.await_records(5, 60)
    loop.stop()
    assert rig.values() == [str(number) for number in range(55, 60)]
    assert [value.decode() for value, _ in letters(rig.bootstrap, dead)] == [
        number for number in numbers(55) if number != "0:3"]
    assert len(list(read_topic(rig.bootstrap, dead, committed=False))) == 54, "nothing was aborted"


def test_the_writes_of_a_lost_job_are_aborted(rig: OnceRig) -> None:
    """Spark loses the answer of a job that did all of its work."""
    rig.engine.lose_answers += [SparkLostError("the executor is gone")] * 2
    rig.limit(2000)
    loop = rig.start()
    loop.await_records(2000, 40)
    loop.stop()
    assert rig.values() == numbers(2000)
    assert len(rig.values(committed=False)) > 2000


def test_an_executor_of_a_replaced_task_can_no_longer_write(rig: OnceRig) -> None:
    """A split of a task whose successor has started: its epoch is stale wherever it runs."""
    kept: list[bytes] = []
    submit = rig.engine.submit

    def keep(task: str, splits: Any) -> Any:
        kept.extend(pickle.dumps(split) for split in splits)
        return submit(task, splits)

    rig.engine.submit = keep  # type: ignore[method-assign]
    rig.limit(1000)
    first = rig.start()
    first.await_records(1000)
    first.stop()
    second = rig.start()
    rig.limit(1500)
    second.await_records(500)
    with pytest.raises(ProducerFencedError):
        pickle.loads(kept[0]).run()
    second.stop()
    assert rig.values() == numbers(1500)


def test_a_fenced_task_fails_with_the_reason(rig: OnceRig) -> None:
    rig.limit(1000)
    first = rig.start()
    first.await_records(1000)
    second = rig.start()
    wait_until(lambda: second.runs, 20)
    rig.limit(2000)
    error = first.await_error()
    assert isinstance(error, ProducerFencedError)
    assert f"transactional id group-{rig.name}-0 was fenced" in str(error)
    second.await_records(1000)
    second.stop()
    assert rig.values() == numbers(2000)


def test_a_task_that_is_refused_after_its_producer_exists_writes_nothing(rig: OnceRig) -> None:
    rig.limit(1000)
    guard = Guard()
    guard.refuse["verify"] = ConnectError("there is a newer set of tasks")
    loop = rig.start(guard)
    assert str(loop.await_error()) == "there is a newer set of tasks"
    assert rig.values(committed=False) == []


def test_a_task_waits_for_its_fencing(rig: OnceRig) -> None:
    rig.limit(10)
    guard = Guard()
    guard.refuse["fence"] = ConnectError("no leader")
    assert str(rig.start(guard).await_error()) == "no leader"
    assert guard.asked == ["fence"]


def test_boundary_interval_commits_after_the_interval_and_at_the_stop(rig: OnceRig) -> None:
    rig.limit(500)
    begun = time.monotonic()
    loop = rig.start(transaction_boundary="interval", transaction_boundary_interval_ms="1500")
    loop.await_records(500)
    assert rig.values() == [] or time.monotonic() > begun + 1.5, "nothing is visible before the interval is over"
    wait_until(lambda: rig.values() == numbers(500), 20, "the end of the interval")
    assert rig.offsets() == offset(500)
    rig.limit(700)
    loop.await_records(700)
    loop.stop()
    assert rig.values() == numbers(700)
    assert rig.notes.recorded("commits") == [[{"0": 500}], [{"0": 700}]]


def test_offsets_without_records_are_committed_after_the_interval_too(rig: OnceRig) -> None:
    rig.limit(500)
    loop = rig.start(transaction_boundary="interval", transaction_boundary_interval_ms="500", silent_from="500")
    loop.await_records(500)
    wait_until(lambda: rig.offsets() == offset(500), 20, "the first transaction")
    rig.limit(700)
    wait_until(lambda: rig.offsets() == offset(700), 20, "the offset of a batch without records")
    assert rig.values() == numbers(500)


def test_pausing_with_boundary_interval_commits_the_open_transaction(rig: OnceRig) -> None:
    rig.limit(500)
    loop = rig.start(transaction_boundary="interval", transaction_boundary_interval_ms="30000")
    loop.await_records(500)
    loop.order(lambda runner: runner.pause())
    wait_until(lambda: rig.values() == numbers(500), 20, "the commit at the pause")


def test_boundary_connector_commits_where_the_connector_says(rig: OnceRig) -> None:
    rig.limit(250)
    options = {"rows": "100", "commit_every": "200", "transaction_boundary": "connector"}
    loop = rig.start(**options)
    loop.await_records(250)
    wait_until(lambda: rig.values() == numbers(200), 20, "the first transaction")
    assert rig.offsets() == offset(200)
    loop.stop()  # 50 are in an open transaction: they are aborted and read again
    rig.limit(400)
    again = rig.start(**options)
    again.await_records(200)
    again.stop()
    assert rig.values() == numbers(400)
    assert rig.notes.recorded("transactions")[:3] == [
        [{"0": 0}, {"0": 100}], [{"0": 100}, {"0": 200}], [{"0": 200}, {"0": 250}],
    ]  # fmt: skip


def test_pausing_within_a_connector_transaction_blocks_no_readers(rig: OnceRig) -> None:
    rig.limit(250)
    loop = rig.start(rows="100", commit_every="200", transaction_boundary="connector")
    loop.await_records(250)
    loop.order(lambda runner: runner.pause())
    other = Producer({"bootstrap.servers": rig.bootstrap})
    other.produce(rig.topic, "another", partition=0)
    assert other.flush(20) == 0
    wait_until(lambda: rig.values() == [*numbers(200), "another"], 20, "the other producer's record")
    rig.limit(400)
    loop.order(lambda runner: runner.resume())
    wait_until(lambda: rig.values() == [*numbers(200), "another", *numbers(400, 200)], 20, "the rest")


def test_a_transaction_that_outlives_its_timeout_fails_the_task(rig: OnceRig) -> None:
    rig.limit(100)
    options = {"rows": "100", "transaction_boundary": "connector", "producer_override_transaction_timeout_ms": "1000"}
    loop = rig.start(commit_every="1000", **options)
    loop.await_records(100)
    other = Producer({"bootstrap.servers": rig.bootstrap})
    other.produce(rig.topic, "another", partition=0)
    assert other.flush(20) == 0
    wait_until(lambda: rig.values() == ["another"], 30, "the coordinator to abort it")
    rig.limit(200)
    error = loop.await_error()
    assert isinstance(error, ProducerFencedError)
    assert "a transaction was open for longer than transaction.timeout.ms (1000)" in str(error)
    again = rig.start(commit_every="100", **options)
    again.await_records(200)
    again.stop()
    assert rig.values() == ["another", *numbers(200)]


def test_the_connector_discards_a_transaction_and_continues(rig: OnceRig) -> None:
    rig.limit(400)
    options = {"rows": "100", "commit_every": "100", "abort_at": "200", "transaction_boundary": "connector"}
    loop = rig.start(**options)
    loop.await_records(400)
    loop.stop()
    assert rig.values() == numbers(100) + numbers(400, 200)
    assert rig.offsets() == offset(400)


def test_a_file_is_sent_in_transactions_of_batch_size_lines(rig: OnceRig, tmp_path: Path) -> None:
    file, lines = tmp_path / "in.txt", [f"line {n:02}" for n in range(50)]
    file.write_text("".join(f"{line}\n" for line in lines))
    loop = rig.start(connector_class="FileStreamSource", file=str(file), batch_size="8", transaction_boundary="poll")
    loop.await_records(50)
    loop.stop()
    assert rig.values() == lines
    ends = [*range(8, 50, 8), 50]
    assert rig.values(rig.offsets_topic) == [f'{{"position":{end * 8}}}' for end in ends]
    assert rig.size() == 50 + len(ends), "records, and a marker where each transaction ends"


def test_a_reader_that_defines_no_transactions_is_refused(rig: OnceRig) -> None:
    rig.limit(10)
    loop = rig.start(connector_class="tests.rigs.task_plugins.NumbersConnector", transaction_boundary="connector")
    assert "transaction.boundary is connector" in str(loop.await_error())
    assert rig.values() == []


def test_a_record_that_is_too_large_fails_the_task_and_is_not_skipped(rig: OnceRig) -> None:
    rig.limit(100)
    loop = rig.start(producer_override_max_request_size="60", errors_tolerance="all")
    assert isinstance(loop.await_error(), RecordTooLargeError)
    assert rig.values() == []
    assert rig.offsets() == []


def test_a_task_may_keep_its_offsets_in_its_connectors_own_topic(rig: OnceRig) -> None:
    own = f"own-{rig.name}"
    rig.make_topic(topic=own)
    rig.limit(1000)
    loop = rig.start(own_offsets=own)
    loop.await_records(1000)
    loop.stop()
    assert rig.values(own) == ['{"at":1000}']
    wait_until(lambda: rig.values(rig.offsets_topic) == ['{"at":1000}'], 20, "the copy")
    rig.limit(1200)
    again = rig.start(own_offsets=own)
    again.await_records(200)
    again.stop()
    assert rig.values() == numbers(1200)
    wait_until(lambda: own not in {thread.name[-len(own):] for thread in threading.enumerate()}, 20, "the readers' end")


def test_a_task_waits_for_offsets_after_another_producers_open_transaction(rig: OnceRig) -> None:
    dead = Producer({"bootstrap.servers": rig.bootstrap, "transactional.id": f"dead-{rig.name}"})
    dead.init_transactions(20)
    dead.begin_transaction()
    dead.produce(rig.offsets_topic, "{}", '["another",{}]')
    assert dead.flush(20) == 0
    rig.limit(1000)
    rig.stores = OffsetStores(rig.stores.worker, rig.log, timeout=0.5)
    loop = rig.start()
    wait_until(lambda: loop.runs >= 2, 20, "the task to have asked several times")
    assert loop.error is None
    assert rig.values(committed=False) == []
    dead.abort_transaction(20)
    loop.await_records(1000)
    loop.stop()
    assert rig.values() == numbers(1000)


def test_acks_and_transactional_id_cannot_be_overridden(rig: OnceRig) -> None:
    with pytest.raises(ConnectError, match="exactly-once delivery requires all"):
        rig.start(producer_override_acks="1")
    rig.limit(10)
    loop = rig.start(producer_override_transactional_id="mine")
    loop.await_records(10)
    loop.stop()
    assert rig.values() == numbers(10)


def test_a_transaction_timeout_that_the_brokers_do_not_allow_is_reported(rig: OnceRig) -> None:
    error = rig.start(producer_override_transaction_timeout_ms="900001").await_error()
    assert "transaction.timeout.ms 900001 is more than the brokers' transaction.max.timeout.ms" in str(error)


def test_a_start_can_be_abandoned(rig: OnceRig) -> None:
    guard = Guard()
    guard.before_verify = lambda: guard.cancelled.wait(20) and None
    loop = rig.start(guard)
    wait_until(lambda: "fence" in guard.asked, 20)
    loop.runner.cancel()
    assert guard.cancelled.is_set()
    assert isinstance(loop.await_error(), ConnectError)
