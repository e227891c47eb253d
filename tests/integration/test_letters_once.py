"""A sink that stores offsets itself has one dead letter for each bad record, whatever fails in between."""

from __future__ import annotations

from collections import Counter
from contextlib import closing, suppress
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AclOperation, ResourceType
from kafka import KafkaAdminClient
from kafka import TopicPartition as PlaceInKafka
from kafka.errors import CoordinatorNotAvailableError
from kafka.structs import OffsetAndMetadata

from spark_tasks.data.columns import RAW_SCHEMA
from spark_tasks.dead_letters.error_handling import ErrorHandling
from spark_tasks.dead_letters.exactly_once import queue_search_sender
from spark_tasks.dead_letters.exactly_once.group_metadata_sender import GroupMetadataSender
from spark_tasks.dead_letters.exactly_once.letter_offsets import LetterOffsets, parsed
from spark_tasks.dead_letters.exactly_once.plans import GroupMetadataPlan, QueueSearchPlan, QueueSearchResult
from spark_tasks.dead_letters.exactly_once.queue_search_sender import QueueSearchSender, queue_ends
from spark_tasks.dead_letters.exactly_once.sender import LettersTakenOverError
from spark_tasks.dead_letters.refusals import Original, Refusals
from spark_tasks.kafka import group_io
from spark_tasks.kafka.errors import NotAMemberError
from spark_tasks.kafka.identity import ProducerIdentity
from spark_tasks.kafka.task_clients import connection_settings
from spark_tasks.kafka.transactional_offsets import GroupGeneration, TransactionalOffset
from spark_tasks.pipeline.errors.failures import FailedStage, Failure
from spark_tasks.process.rate_limited_log import RateLimitedLog
from tests.rigs.support import wait_until
from tests.rigs.task_rigs import SinkRig
from tests.rigs.tasks import Loop
from tests.rigs.topic_reader import read_topic
from tests.rigs.workers import Kafka

pytestmark = pytest.mark.integration


@pytest.fixture(autouse=True)
def every_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also the sixth one in a minute."""
    monkeypatch.setattr(RateLimitedLog, "suppressed", lambda _log, _kind: 0)


def wait_committed(sink: SinkRig) -> None:
    """Until all 20 records are stored, and the group's offsets are committed."""
    def stored() -> bool:
        return sum(sum(counts) for [counts] in sink.notes.recorded("commits")) >= 20

    wait_until(stored, 60)  # the group has a coordinator then
    wait_until(lambda: sink.committed() == {0: 10, 1: 10}, 30)


def dead(sink: SinkRig) -> str:
    return f"dead-{sink.name}"


@pytest.fixture(params=["true", "false"], ids=["headers", "no headers"])
def headers(request: pytest.FixtureRequest) -> str:
    return request.param


def start(sink: SinkRig, headers: str, **options: str) -> Loop:
    return sink.start(**{
        "writer": "resumable", "report": "7,16", "errors.tolerance": "all",
        "errors.deadletterqueue.topic.name": dead(sink), "errors.deadletterqueue.topic.replication.factor": "1",
        "errors.deadletterqueue.context.headers.enable": headers, **options,
    })


def letters(sink: SinkRig) -> Counter[bytes | None]:
    """How many letters each bad record has."""
    return Counter(message.value() for message in read_topic(sink.bootstrap, dead(sink)))


def stored_metadata(sink: SinkRig) -> list[str]:
    """Not with librdkafka, which returns a few more bytes than there are."""
    group = f"connect-{sink.name}"
    with closing(KafkaAdminClient(bootstrap_servers=sink.bootstrap)) as admin:
        found = admin.list_group_offsets({group: None})[group]
    return [stored.metadata for tp, stored in found.items() if tp.topic == sink.topic]


def test_a_batch_that_is_repeated_writes_its_letters_once(sink: SinkRig, headers: str) -> None:
    sink.produce(20)
    start(sink, headers, half="0")
    wait_committed(sink)
    assert len(sink.notes.recorded("writes")) > 2, "it was repeated"
    assert letters(sink) == {b"7": 1, b"16": 1}


def test_another_task_finds_the_letters_of_a_batch_that_was_not_committed(sink: SinkRig, headers: str) -> None:
    sink.produce(20)
    (sink.notes.path / "no-commits").touch()
    first = start(sink, headers)
    wait_until(lambda: len(sink.notes.recorded("failed")) > 1, 60)
    first.stop()
    assert letters(sink) == {b"7": 1, b"16": 1}
    assert sink.committed() == {0: 0, 1: 0}, "where its batches begin"
    found = stored_metadata(sink)  # librdkafka returns a few bytes more
    if headers == "true":
        assert [text[:16] for text in found] == ["heeler-letters:0"] * 2, "and that the queue was empty then"
    else:
        known = sorted(written.runs for text in found if (written := parsed(text)) is not None)
        assert known == [((3, 4),), ((8, 9),)], "and which records have a letter"
    (sink.notes.path / "no-commits").unlink()
    start(sink, headers)
    wait_committed(sink)
    assert letters(sink) == {b"7": 1, b"16": 1}


def test_small_batches_are_committed_together(
    sink: SinkRig, headers: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without headers, each batch waited for a commit. The offsets that are left are committed at the end, though there
    is another batch, which has not begun.
    """
    monkeypatch.setattr(group_io, "COMMIT_PAUSE_S", 3600.0)
    loop = start(sink, headers, report="7")
    for n in range(0, 12, 2):
        sink.produce(2, start=n)
        loop.await_records(n + 2)
    sink.engine.free.clear()
    jobs = sink.engine.jobs
    sink.produce(2, start=12)
    wait_until(lambda: sink.engine.jobs > jobs, 20, "a batch that waits")
    loop.stop()
    assert len(sink.notes.recorded("commits")) >= 6
    assert sink.metrics.commits["done"] == 2
    assert sink.committed() == {0: 6, 1: 6}
    assert letters(sink) == {b"7": 1}


def test_a_failed_batch_keeps_its_letters_though_offsets_of_earlier_batches_wait(
    sink: SinkRig, headers: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their commit would replace what says which records have a letter."""
    monkeypatch.setattr(group_io, "COMMIT_PAUSE_S", 3600.0)
    loop = start(sink, headers)
    for n in (0, 2):
        sink.produce(2, start=n)
        loop.await_records(n + 2)
    (sink.notes.path / "no-commits").touch()
    sink.produce(16, start=4)
    wait_until(lambda: len(sink.notes.recorded("failed")) > 1, 60)
    loop.stop()
    (sink.notes.path / "no-commits").unlink()
    monkeypatch.undo()
    start(sink, headers)
    wait_until(lambda: sink.committed() == {0: 10, 1: 10}, 60)
    assert letters(sink) == {b"7": 1, b"16": 1}


def test_the_last_records_which_a_sink_refuses_are_read_again_but_get_no_other_letters(
    sink: SinkRig, headers: str
) -> None:
    """A sink resumes after the last record that it has, so that it reads these at each start."""
    sink.produce(20)
    loop = start(sink, headers, report="18,19")
    wait_committed(sink)
    loop.stop()

    def again() -> list[int]:
        return sorted(number for _, number, offsets, _ in sink.notes.recorded("writes") if offsets == [9])

    for times in (1, 2):
        loop = start(sink, headers, report="18,19", resume="9")
        wait_until(lambda expected=times * [0] + times * [1]: again() == expected, 60)
        loop.stop()
    assert letters(sink) == {b"18": 1, b"19": 1}


def test_records_that_are_read_again_on_purpose_have_new_letters(sink: SinkRig, headers: str) -> None:
    sink.produce(20)
    loop = start(sink, headers)
    wait_committed(sink)
    loop.stop()
    again = [TopicPartition(sink.topic, 0, 0), TopicPartition(sink.topic, 1, 0)]
    group = ConsumerGroupTopicPartitions(f"connect-{sink.name}", again)
    [altered] = wait_until(lambda: [f.result(20) for f in sink.admin.alter_consumer_group_offsets([group]).values()])
    assert not any(tp.error for tp in altered.topic_partitions)
    start(sink, headers)
    wait_committed(sink)
    assert letters(sink) == {b"7": 2, b"16": 2}


def test_a_producer_without_permission_for_its_transactional_id_writes_letters_at_least_once(
    sink: SinkRig, headers: str, kafka: Kafka, caplog: pytest.LogCaptureFixture
) -> None:
    """Only the id of partition 1 is denied: a warning says so, and the letters of partition 0 are written once."""
    sink.produce(20)
    (sink.notes.path / "no-commits").touch()
    denied = f"connect-{sink.name}-letters-{sink.topic}-1"

    def attempts(partition: int) -> int:
        return sum(number == partition for _, number, *_ in sink.notes.recorded("writes"))

    with kafka.denied(AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, denied):
        start(sink, headers)
        wait_until(lambda: min(attempts(0), attempts(1)) > 1, 60, "repeated batches")
        (sink.notes.path / "no-commits").unlink()
        wait_committed(sink)
    assert letters(sink) == {b"7": attempts(1), b"16": 1}
    warning = ("Dead letters may be written twice after a failure: the queue's producer needs WRITE permission on the "
               "transactional id {}: ")
    assert warning.format(denied) in caplog.text
    assert warning.format(f"{denied[:-1]}0") not in caplog.text


def refused(handling: ErrorHandling, topic: str, *offsets: int, large: int = -1) -> Refusals:
    """The record at the offset `large` has 20,000 bytes."""
    refusals = Refusals(handling)
    for offset in offsets:
        value = b"x" * 20_000 if offset == large else str(offset).encode()
        record = {"offset": offset, "timestamp": 0, "key": None, "value": value, "headers": None}
        raw = pa.RecordBatch.from_pylist([record], RAW_SCHEMA)
        failure = Failure(FailedStage.TASK_PUT, "Sink", ValueError("bad"), "bad", 0)
        refusals.add(failure, Original(topic, raw, 0, offset))
    return refusals


def send_once(
    refusals: Refusals, handling: ErrorHandling, topic: str, plan: QueueSearchPlan
) -> QueueSearchResult | None:
    sender = QueueSearchSender(handling, (topic, 0), plan)
    sender.send(refusals)
    assert sender.known is None or isinstance(sender.known, QueueSearchResult)
    return sender.known


def test_a_late_attempt_is_fenced_and_one_that_comes_later_finds_the_letters(
    sink: SinkRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first attempt is suspended between its search and its letters; the second one writes them meanwhile."""
    client = connection_settings({"bootstrap.servers": sink.bootstrap})
    handling = ErrorHandling(sink.name, tolerant=True, queue=dead(sink), with_headers=True, client=client)
    sink.make_topic(topic=dead(sink))
    plan = QueueSearchPlan(f"{sink.name}-letters", queue_ends(handling))
    search = queue_search_sender.already_written

    def searched(*arguments: Any) -> set[int]:
        monkeypatch.setattr(queue_search_sender, "already_written", search)
        found = search(*arguments)
        assert send_once(refused(handling, sink.topic, 3, 5), handling, sink.topic, plan) == QueueSearchResult((0,), -1)
        return found

    monkeypatch.setattr(queue_search_sender, "already_written", searched)
    with pytest.raises(LettersTakenOverError):
        send_once(refused(handling, sink.topic, 3, 5), handling, sink.topic, plan)
    assert letters(sink) == {b"3": 1, b"5": 1}
    later = refused(handling, sink.topic, 3, 5, 7)
    found = send_once(later, handling, sink.topic, plan)
    assert found == QueueSearchResult((3,), 5), "two letters, the end of their transaction"
    assert later.refused.letters == 1
    assert letters(sink) == {b"3": 1, b"5": 1, b"7": 1}
    shorter = refused(handling, sink.topic, 3)
    found = send_once(shorter, handling, sink.topic, plan)
    assert found is not None
    assert found.last == 7, "a letter of a record after those of this batch"
    assert shorter.refused.letters == 0


def test_a_letter_that_a_broker_refuses_as_too_large_affects_no_others(
    sink: SinkRig, caplog: pytest.LogCaptureFixture
) -> None:
    """The producer's max.request.size allows it. The task failed with it, again and again."""
    client = connection_settings({"bootstrap.servers": sink.bootstrap})
    handling = ErrorHandling(sink.name, tolerant=True, queue=dead(sink), with_headers=True, client=client)
    sink.make_topic(topic=dead(sink), **{"max.message.bytes": "10000"})
    plan = QueueSearchPlan(f"{sink.name}-letters", queue_ends(handling))
    refusals = refused(handling, sink.topic, 3, 4, 5, large=4)
    assert send_once(refusals, handling, sink.topic, plan) is not None
    assert (refusals.refused.letters, refusals.refused.lost_letters) == (2, 1)
    assert f"Could not produce message to dead letter queue. topic={dead(sink)}: a broker rejected" in caplog.text
    again = refused(handling, sink.topic, 3, 5, 7)
    found = send_once(again, handling, sink.topic, plan)
    assert found is not None
    assert (found.last, again.refused.letters) == (5, 1)
    assert letters(sink) == {b"3": 1, b"5": 1, b"7": 1}


def in_group(sink: SinkRig, group: str = "", number: int = -1, member: str = "") -> GroupMetadataPlan:
    """Not of a member, which a group without members allows."""
    generation = GroupGeneration(group or f"connect-{sink.name}", number, member)
    return GroupMetadataPlan(f"{sink.name}-letters", generation, 0)


@pytest.fixture
def without_headers(sink: SinkRig) -> ErrorHandling:
    """There are a queue and a group with an offset of the topic."""
    sink.make_topic(topic=dead(sink))
    commit(sink, f"connect-{sink.name}", LetterOffsets().metadata())
    client = connection_settings({"bootstrap.servers": sink.bootstrap})
    return ErrorHandling(sink.name, tolerant=True, queue=dead(sink), client=client)


def commit(sink: SinkRig, group: str, metadata: str) -> None:
    def committed() -> bool:
        with suppress(CoordinatorNotAvailableError):  # the first group of a new broker
            admin.alter_group_offsets(group, {PlaceInKafka(sink.topic, 0): OffsetAndMetadata(2, metadata, -1)})
            return True
        return False

    with closing(KafkaAdminClient(bootstrap_servers=sink.bootstrap)) as admin:
        wait_until(committed, 30)


def test_a_late_attempt_without_headers_is_fenced_and_one_that_comes_later_finds_the_letters(
    sink: SinkRig, without_headers: ErrorHandling
) -> None:
    late = GroupMetadataSender(without_headers, (sink.topic, 0), in_group(sink))
    late.send(refused(without_headers, sink.topic, 3))
    sender = GroupMetadataSender(without_headers, (sink.topic, 0), in_group(sink))
    sender.send(refused(without_headers, sink.topic, 3, 5))
    with pytest.raises(LettersTakenOverError):
        late.send(refused(without_headers, sink.topic, 5))
    later = GroupMetadataSender(without_headers, (sink.topic, 0), in_group(sink))
    later.send(refused(without_headers, sink.topic, 3, 5, 7))
    later.send(refused(without_headers, sink.topic, 8))
    assert later.known == LetterOffsets().with_more([3, 5, 7, 8])
    assert letters(sink) == {b"3": 1, b"5": 1, b"7": 1, b"8": 1}
    assert sink.committed() == {0: 2}, "its metadata alone has changed"


def test_letters_of_an_earlier_attempt_are_known_after_a_batch_without_bad_records(
    sink: SinkRig, without_headers: ErrorHandling
) -> None:
    """Its transaction ended when the task had read the group's offset. The letter was forgotten, and written again."""
    early = GroupMetadataSender(without_headers, (sink.topic, 0), in_group(sink))
    early.send(refused(without_headers, sink.topic, 3))
    sure, unsure = (GroupMetadataSender(without_headers, (sink.topic, 0), replace(in_group(sink), unsure=unsure))
                    for unsure in (False, True))
    sure.send(Refusals(without_headers))
    assert sure.known is None
    unsure.send(Refusals(without_headers))
    assert unsure.known == LetterOffsets().with_more([3])
    with pytest.raises(LettersTakenOverError):
        early.send(refused(without_headers, sink.topic, 5))
    assert letters(sink) == {b"3": 1}


@pytest.mark.parametrize(("allowed", "known"), [(90, True), (20, False)])
def test_a_broker_that_allows_less_metadata_notes_fewer_letters(
    sink: SinkRig, without_headers: ErrorHandling, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture,
    allowed: int, known: bool,
) -> None:
    """Each batch with many bad records failed the task. The broker here allows 4,096 bytes: longer texts stand for
    those that are too long.
    """
    plain = TransactionalOffset.commit

    def commit(offset: TransactionalOffset, identity: ProducerIdentity, position: int, text: str) -> None:
        plain(offset, identity, position, text if len(text) <= allowed else "x" * 5000)

    monkeypatch.setattr(TransactionalOffset, "commit", commit)
    offsets = [n * n for n in range(50)]
    sender = GroupMetadataSender(without_headers, (sink.topic, 0), in_group(sink))
    sender.send(refused(without_headers, sink.topic, *offsets))
    assert letters(sink) == {str(offset).encode(): 1 for offset in offsets}
    [text] = stored_metadata(sink)
    noted = parsed(text)
    assert noted is not None
    assert bool(noted.runs) is known
    if known:
        assert noted == sender.known
        assert noted.runs[-1] == (49 * 49, 49 * 49 + 1)
    assert ("offset.metadata.max.bytes" in caplog.text) is not known


def test_a_member_of_an_earlier_generation_writes_no_letters(sink: SinkRig, without_headers: ErrorHandling) -> None:
    sender = GroupMetadataSender(without_headers, (sink.topic, 0), in_group(sink, number=1, member="gone"))
    with pytest.raises(NotAMemberError, match=f"^committing an offset of consumer group connect-{sink.name}: "):
        sender.send(refused(without_headers, sink.topic, 3))
    assert letters(sink) == {}


@pytest.mark.parametrize("operation", [AclOperation.DESCRIBE, AclOperation.READ])
def test_without_permission_for_the_group_letters_are_written_at_least_once(
    sink: SinkRig, without_headers: ErrorHandling, kafka: Kafka, caplog: pytest.LogCaptureFixture,
    operation: AclOperation,
) -> None:
    group = f"connect-{sink.name}"
    with kafka.denied(operation, ResourceType.GROUP, group):
        for _ in range(2):
            sender = GroupMetadataSender(without_headers, (sink.topic, 0), in_group(sink))
            refusals = refused(without_headers, sink.topic, 3, 5)
            sender.send(refusals)
            sender.send(refused(without_headers, sink.topic, 7))
            assert refusals.refused.letters == 2
    assert letters(sink) == {b"3": 2, b"5": 2, b"7": 2}
    assert (f"Dead letters may be written twice after a failure: the queue's producer cannot commit offsets of "
            f"consumer group {group} in its transactions: ") in caplog.text


def test_without_an_offset_of_the_group_letters_are_written_at_least_once(
    sink: SinkRig, without_headers: ErrorHandling, caplog: pytest.LogCaptureFixture
) -> None:
    sender = GroupMetadataSender(without_headers, (sink.topic, 0), in_group(sink, group="nobody"))
    sender.send(refused(without_headers, sink.topic, 3))
    assert letters(sink) == {b"3": 1}
    assert f"its transactions: no offset of {sink.topic}-0 is committed" in caplog.text


def test_a_queue_in_another_cluster_has_letters_at_least_once_without_headers(
    sink: SinkRig, headers: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Only its group is not the sink's; here the same cluster has another name."""
    sink.produce(20)
    start(sink, headers, half="0", **{"producer.override.bootstrap.servers": f"{sink.bootstrap},{sink.bootstrap}"})
    wait_committed(sink)
    assert len(sink.notes.recorded("writes")) > 2, "it was repeated"
    found = letters(sink)
    if headers == "true":
        assert found == {b"7": 1, b"16": 1}
    assert sorted(found) == [b"16", b"7"]
    assert ("has other bootstrap.servers than the consumer of" in caplog.text) is (headers == "false")
