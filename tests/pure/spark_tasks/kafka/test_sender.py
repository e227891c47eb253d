"""The appender with a broker in memory that checks sequences like Kafka and fails in every possible way."""

from __future__ import annotations

import threading
from collections import defaultdict, deque

import kafka.errors as protocol
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_tasks.errors import RetriableError
from spark_tasks.kafka.append import Appender
from spark_tasks.kafka.errors import KafkaRefusedError, OutOfOrderSequenceError, ProducerFencedError, RecordRefusedError
from spark_tasks.kafka.identity import ProducerIdentity
from spark_tasks.kafka.records import RecordTooLargeError
from tests.rigs.append_broker import ME, Broker, numbers, raw
from tests.rigs.loop_cluster import Cluster

FAULTS = [
    None, "lost request", "lost response", "no result", "restart", protocol.NotLeaderForPartitionError.errno,
    protocol.NotEnoughReplicasAfterAppendError.errno, protocol.RequestTimedOutError.errno,
    protocol.ConcurrentTransactionsError.errno, protocol.CorruptRecordError.errno,
]  # fmt: skip


def test_a_batch_whose_response_was_lost_twice_is_not_duplicated(started):
    """A broker remembers a partition's last five batches: a retried one must not fall further behind than that."""
    broker = Broker([None, "lost response", None, None, None, None, "lost response"])
    appender = Appender(started(broker), ME, sequences={("t", 0): 0}, in_flight=5, max_batch_bytes=300)
    values = numbers(0, 80)
    appender.append("t", 0, raw(values))
    appender.flush()
    assert broker.logs["t", 0] == values


def test_a_batch_without_a_result_in_the_response_is_not_taken_for_appended(started):
    broker = Broker([None, "no result"])
    appender = Appender(started(broker), ME, sequences={("t", 0): 0}, max_batch_bytes=300)
    values = numbers(0, 20)
    appender.append("t", 0, raw(values))
    appender.flush()
    assert broker.logs["t", 0] == values


def appended_before_a_restart(started, describe_fault):
    """An appender, its broker and the values of its batches: five of these are appended, but not acknowledged."""
    broker = Broker([None, *["restart"] * 5])
    broker.describe_faults = [describe_fault]
    cluster, values, encoded = started(broker), numbers(0, 80), threading.Event()
    cluster.io.start(encoded.wait, 30)  # otherwise some batches might be sent before there are five
    appender = Appender(cluster, ME, sequences={("t", 0): 0}, in_flight=5, max_batch_bytes=300)
    appender.append("t", 0, raw(values))
    encoded.set()
    return appender, broker, values


def test_batches_that_a_restarted_broker_has_forgotten_are_not_sent_again(started):
    appender, broker, values = appended_before_a_restart(started, protocol.NotLeaderForPartitionError.errno)
    appender.flush()
    assert broker.logs["t", 0] == values
    assert broker.describe_faults == []


def test_an_appender_that_may_not_know_what_is_appended_fails(started):
    appender, broker, _ = appended_before_a_restart(started, protocol.TopicAuthorizationFailedError.errno)
    with pytest.raises(OutOfOrderSequenceError, match="t-0"):
        appender.flush()
    assert broker.describe_faults == []


@given(
    st.lists(st.sampled_from(FAULTS), max_size=25),
    st.integers(1, 5),
    st.integers(200, 3000),
    st.sampled_from([600, 10**9]),
)
def test_records_are_appended_once_and_in_order_despite_failures(faults, in_flight, batch_bytes, largest):
    broker = Broker(faults, largest)
    cluster = Cluster(broker, partitions=3)
    try:
        appender = Appender(cluster, ME, sequences={("t", 1): 0}, in_flight=in_flight, max_batch_bytes=batch_bytes)
        expected = defaultdict(list)
        for first in range(0, 120, 40):
            values = numbers(first, 40)
            where = np.arange(40) % 3
            appender.append("t", where, raw(values))
            for partition, value in zip(where.tolist(), values, strict=True):
                expected["t", partition].append(value)
        appender.flush()
        assert dict(broker.logs) == dict(expected)
        assert len(cluster.io.lanes) == 3  # requests of one connection arrive in order, so a partition has just one
        assert appender.sequences == {where: len(log) for where, log in expected.items()}
    finally:
        cluster.io.close()


LARGE, FORBIDDEN = b"L" * 700, b"F" * 20
WAYS = pytest.mark.parametrize(("identity", "naming"), [
    (ME, False), (None, True), *(pytest.param(*way, marks=pytest.mark.nightly) for way in ((ME, True), (None, False)))])


@WAYS
@given(
    st.lists(st.sampled_from(FAULTS), max_size=25),
    st.lists(st.sampled_from([b"good" * 5, LARGE, FORBIDDEN]), min_size=1, max_size=60),
    st.integers(1, 5), st.integers(100, 3000), st.integers(1, 3),
)
def test_records_that_a_broker_refuses_are_left_out(identity, naming, faults, kinds, in_flight, batch_bytes, appends):
    """All others are appended once, in order and with sequence numbers without gaps, whatever fails meanwhile."""
    broker = Broker(faults if identity else (), 600, [FORBIDDEN], naming=naming)
    cluster = Cluster(broker)
    refused = defaultdict(list)
    try:
        appender = Appender(cluster, identity, in_flight=in_flight, max_batch_bytes=batch_bytes)
        expected = []
        for number in range(appends):
            values = [kind + b"%d-%d" % (number, row) for row, kind in enumerate(kinds)]
            expected += [value for value, kind in zip(values, kinds, strict=True) if kind not in (LARGE, FORBIDDEN)]
            appender.append("t", 0, raw(values), on_refusal=lambda row, error, number=number: refused[number].append(
                (row, type(error))))
            if number == 0:
                appender.flush()
        appender.flush()
        assert broker.logs["t", 0] == expected
        errors = {LARGE: RecordTooLargeError, FORBIDDEN: RecordRefusedError}
        bad = [(row, errors[kind]) for row, kind in enumerate(kinds) if kind in errors]
        assert [sorted(refused[number], key=lambda one: one[0]) for number in range(appends)] == [bad] * appends
        assert appender.sequences == ({("t", 0): len(expected)} if identity else {})
    finally:
        cluster.io.close()


@WAYS
@given(
    st.lists(st.sampled_from(FAULTS), max_size=25),
    st.lists(st.sampled_from([b"good" * 5, LARGE, FORBIDDEN]), min_size=1, max_size=40),
    st.integers(1, 5), st.integers(100, 3000),
)
def test_partitions_with_refused_records_and_their_letters_share_an_appender(
    identity, naming, faults, kinds, in_flight, batch_bytes
):
    """As in a source's split: the letters are appended while other records are in flight, and may be refused too."""
    broker = Broker(faults if identity else (), 600, [FORBIDDEN], naming=naming)
    cluster = Cluster(broker, partitions=2)
    try:
        appender = Appender(cluster, identity, in_flight=in_flight, max_batch_bytes=batch_bytes)
        values = [kind + b"%d" % row for row, kind in enumerate(kinds)]
        places = np.arange(len(values)) % 2
        refused, lost, letters = deque(), [], []

        def send_letters():
            found = [values[refused.popleft()] for _ in range(len(refused))]
            if found:
                letters.extend(found)
                appender.append("dead", None, raw([value[-22:] for value in found]),
                                on_refusal=lambda row, _: lost.append(found[row]))
            return bool(found)

        appender.append("t", places, raw(values), on_refusal=lambda row, _: refused.append(row))
        while not appender.flushed(0.001):
            send_letters()
        while send_letters():
            appender.flush()
        good = [kind not in (LARGE, FORBIDDEN) for kind in kinds]
        expected = {("t", number): [value for value, sound, place in zip(values, good, places, strict=True)
                                    if sound and place == number] for number in (0, 1)}
        bad = [value for value, sound in zip(values, good, strict=True) if not sound]
        assert {where: broker.logs[where] for where in expected} == expected
        assert sorted(letters) == sorted(bad)
        assert sorted(lost) == sorted(value for value in bad if value.startswith(FORBIDDEN))
        written = [value for (topic, _), log in broker.logs.items() if topic == "dead" for value in log]
        assert sorted(written) == sorted(value[-22:] for value in bad if value.startswith(LARGE))
        if identity:
            assert all(appender.sequences[where] == len(log) for where, log in broker.logs.items() if log)
    finally:
        cluster.io.close()


@pytest.mark.parametrize("shrinks", [True, False])
def test_batches_become_smaller_only_if_one_was_too_large(started, shrinks):
    """And not if one was halved to find the record that the broker refuses."""
    broker = Broker(forbidden=[FORBIDDEN], naming=False)
    appender = Appender(started(broker), ME, max_batch_bytes=9_000)
    append, sizes = broker.append, []
    broker.append = lambda where, data, fault: (sizes.append(len(data)), append(where, data, fault))[1]

    def largest_of_many():
        sizes.clear()
        appender.append("t", 0, raw([*numbers(0, 1000), *bad]), on_refusal=lambda *_: None)
        appender.flush()
        return max(sizes)

    bad = []
    before = largest_of_many()
    if shrinks:
        broker.largest = before - 1
    else:
        bad = [FORBIDDEN]
    largest_of_many()
    assert (largest_of_many() < before) == shrinks
    assert broker.logs["t", 0] == numbers(0, 1000) * 3


def test_a_record_that_was_appended_before_a_broker_refuses_it_is_not_left_out(started):
    """The topic's limit was lowered after the response was lost. The next record would take its sequence number."""
    broker, refused = Broker([None, "narrowed"]), []
    appender = Appender(started(broker), ME)
    appender.append("t", 0, raw([b"a"]))
    appender.flush()
    for value in (LARGE, b"b"):
        appender.append("t", 0, raw([value]), on_refusal=lambda *refusal: refused.append(refusal))
    appender.flush()
    assert (broker.logs["t", 0], refused) == ([b"a", LARGE, b"b"], [])


def test_a_refused_record_is_reported_with_the_brokers_reason(started):
    appender = Appender(started(Broker(largest=600, forbidden=[FORBIDDEN])), ME)
    refused = {}
    appender.append("t", 0, raw([b"a", FORBIDDEN, b"b", LARGE]), on_refusal=lambda row, error: refused.update(
        {row: error}))
    appender.flush()
    assert str(refused[1]).startswith("a broker refuses a record for t-0: row ")
    assert refused[1].java_class == "org.apache.kafka.common.InvalidRecordException"
    assert (refused[3].size > 700, refused[3].limit) == (True, None)


def test_without_a_callback_a_refused_record_ends_the_appender(started):
    appender = Appender(started(Broker(forbidden=[FORBIDDEN])), ME)
    appender.append("t", 0, raw([b"a", FORBIDDEN]))
    with pytest.raises(RecordRefusedError, match="a broker refuses a record for t-0"):
        appender.flush()


def test_without_a_producer_id_batches_are_sent_one_by_one_and_keep_their_order(started):
    broker = Broker([None, protocol.NotLeaderForPartitionError.errno, None, "lost request"])
    appender = Appender(started(broker), None, max_batch_bytes=300)
    appender.append("t", 0, raw(numbers(0, 50)))
    appender.flush()
    assert broker.logs["t", 0] == numbers(0, 50)
    assert appender.sequences == {}


def test_a_stale_epoch_ends_the_appender(started):
    broker = Broker()
    broker.epoch = 1
    appender = Appender(started(broker), ME)
    appender.append("t", 0, raw([b"x"]))
    with pytest.raises(ProducerFencedError):
        appender.flush()
    with pytest.raises(ProducerFencedError):
        appender.append("t", 0, raw([b"y"]))
    assert broker.logs["t", 0] == []


@pytest.mark.parametrize("transactional_id", [None, "id"])
def test_a_gap_in_the_sequences_is_an_error_that_another_producer_id_resolves(started, transactional_id):
    broker = Broker()
    broker.expected["t", 0] = 3
    identity = ProducerIdentity(7, 0, transactional_id)
    appender = Appender(started(broker), identity, sequences={("t", 0): 5})
    appender.append("t", 0, raw([b"x"]))
    with pytest.raises(OutOfOrderSequenceError, match="t-0") as raised:
        appender.flush()
    assert isinstance(raised.value, RetriableError) == (transactional_id is None)
    assert raised.value.code == protocol.OutOfOrderSequenceNumberError.errno


@pytest.mark.parametrize("error", [
    protocol.UnknownBrokerIdError, protocol.NodeNotReadyError, protocol.RequestTimedOutError,
    protocol.KafkaTimeoutError, ConnectionResetError,
])  # fmt: skip
def test_the_leader_is_looked_up_again_if_its_broker_is_gone(started, error):
    """Or hangs: another broker leads the partition by then, and only brokers that are alive say so."""
    broker = Broker()
    cluster = started(broker)
    answers, looked_up = broker.answer, []

    async def answer(request):
        if len(looked_up) < 2:
            raise error(1)
        return await answers(request)

    async def find_leader(topic, partition, _deadline):
        looked_up.append(topic)
        cluster.known.add((topic, partition))
        return 1

    broker.answer, cluster.find_leader = answer, find_leader
    appender = Appender(cluster, ME, delivery_timeout_ms=5_000)
    appender.append("t", 0, raw([b"x"]))
    appender.flush()
    assert broker.logs["t", 0] == [b"x"]


@pytest.mark.parametrize("step", ["known_leader", "find_leader", "forget_leaders"])
def test_an_unexpected_error_in_any_step_ends_the_appender_and_all_waiting_calls(started, monkeypatch, step):
    def defect(*_):
        raise ValueError("a defect")

    cluster = started(Broker([protocol.NotLeaderForPartitionError.errno]))
    monkeypatch.setattr(cluster, step, defect)
    appender = Appender(cluster, ME)
    appender.append("t", 0, raw(numbers(0, 3)))
    with pytest.raises(KafkaRefusedError, match=r"^appending.*: a defect$"):
        appender.flush()


def test_a_defect_ends_the_appender_and_all_waiting_calls(started):
    appender = Appender(started(Broker(["defect"])), ME)
    appender.append("t", 0, raw(numbers(0, 3)))
    with pytest.raises(KafkaRefusedError, match=r"^appending to t-0: no such field$"):
        appender.flush()
