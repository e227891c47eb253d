"""Which partitions an Appender appends to, what it does not take, and how long its callers wait."""

from __future__ import annotations

import asyncio
import pickle
import re
import threading
import time
from concurrent.futures import Future
from contextlib import nullcontext
from types import SimpleNamespace

import kafka.errors as protocol
import numpy as np
import pyarrow as pa
import pytest

from spark_tasks.errors import ConnectError
from spark_tasks.kafka import sender
from spark_tasks.kafka.append import Appender
from spark_tasks.kafka.errors import KafkaRefusedError, KafkaUnavailableError
from spark_tasks.kafka.identity import ProducerIdentity
from spark_tasks.kafka.records import RecordTooLargeError
from tests.rigs.append_broker import ME, Broker, numbers, raw
from tests.rigs.support import wait_until


def test_the_error_for_a_record_over_the_topics_limit_names_the_topic(started):
    appender = Appender(started(Broker(largest=500)), ME)
    appender.append("narrow", 0, raw([b"a", b"b" * 1000]))
    with pytest.raises(RecordTooLargeError, match=r"a broker rejected a record for topic 'narrow'") as raised:
        appender.flush()
    error = pickle.loads(pickle.dumps(raised.value))
    assert (error.size > 1000, error.limit) == (True, None)
    numbers_said = {int(word) for word in re.findall(r"\d+", str(error))}
    assert numbers_said == {error.size}, "no limit that nobody has set"


def test_a_record_over_the_request_size_is_not_even_sent(started):
    broker = Broker()
    appender = Appender(started(broker), ME, max_request_bytes=500)
    with pytest.raises(RecordTooLargeError, match=r"'narrow'.* the 500 of .*producer\.override\.max\.request\.size"):
        appender.append("narrow", 0, raw([b"b" * 1000]))
    assert broker.requests == 0


def test_nonexistent_partitions_are_refused(started):
    appender = Appender(started(Broker(), partitions=2), ME)
    for partition in (2, -1, np.array([0, 2])):
        with pytest.raises(KafkaRefusedError, match="partitions 0 to 1"):
            appender.append("t", partition, raw([b"a", b"b"]))


def test_a_record_can_have_a_partition_that_was_added_a_moment_ago(started):
    broker = Broker()
    cluster = started(broker, partitions=2)
    cluster.after_more_were_added = 3
    appender = Appender(cluster, ME)
    appender.append("t", np.array([0, 2]), raw([b"a", b"b"]))
    appender.append("t", 2, raw([b"c"]))
    appender.flush()
    assert broker.logs == {("t", 0): [b"a"], ("t", 2): [b"b", b"c"]}


def test_the_partitioner_is_used_for_records_without_a_partition(started):
    broker = Broker()
    appender = Appender(started(broker, partitions=4), ME)
    keyed = raw([b"1", b"2", b"3"]).set_column(2, "key", pa.array([b"a", b"b", b"a"], pa.binary()))
    appender.append("t", pa.array([None, 3, None], pa.int32()), keyed)
    appender.append("t", None, raw([b"no key"]))
    appender.flush()
    assert sum(map(len, broker.logs.values())) == 4
    assert b"2" in broker.logs["t", 3]
    (where,) = {place for place, log in broker.logs.items() if b"1" in log}
    assert [value for value in broker.logs[where] if value in (b"1", b"3")] == [b"1", b"3"]


def test_records_without_a_key_go_to_partitions_that_have_a_leader(started, monkeypatch):
    broker = Broker()
    cluster = started(broker, partitions=4)
    appender = Appender(cluster, ME)
    away = {"t": {2, 3}}
    monkeypatch.setattr(cluster, "known_leader", lambda topic, number: None if number in away[topic] else 1)
    for _ in range(20):
        appender.append("t", None, raw(numbers(0, 400)))  # more than stay in one partition
    away["t"] = {0, 1}
    for _ in range(20):
        appender.append("t", None, raw([b"later"]))
    away["t"] = set()
    appender.flush()
    assert [broker.logs["t", number].count(b"later") for number in (0, 1)] == [0, 0]
    assert sum(map(len, broker.logs.values())) == 20 * 401
    assert broker.logs["t", 2].count(b"later") == len(broker.logs["t", 2])


@pytest.mark.parametrize(("identity", "unlimited"), [(ME, True), (None, True), (ProducerIdentity(7, 0, "id"), False)])
def test_a_partition_without_a_leader_is_awaited_unless_its_transaction_can_be_aborted(
    started, monkeypatch, identity, unlimited
):
    """As by Kafka Connect's producers: records that are appended again are duplicates."""
    cluster, failures = started(Broker()), [1] * 50
    find_leader, begun = cluster.find_leader, time.monotonic()
    monkeypatch.setattr(sender, "time", SimpleNamespace(monotonic=lambda: begun + 10 * (50 - len(failures))))

    async def spied(topic, partition, deadline):
        if failures:
            failures.pop()
            raise protocol.LeaderNotAvailableError("t-0")
        return await find_leader(topic, partition, deadline)

    cluster.find_leader = spied
    appender = Appender(cluster, identity)
    appender.append("t", 0, raw([b"x"]))
    with nullcontext() if unlimited else pytest.raises(KafkaUnavailableError, match="finding the leader of t-0"):
        appender.flush()


def test_closing_an_appender_wakes_who_waits_for_it(started):
    cluster = started(Broker())
    asked = threading.Event()

    async def find_leader(*_):
        asked.set()
        await asyncio.Event().wait()

    cluster.find_leader = find_leader
    appender = Appender(cluster, ME)
    appender.append("t", 0, raw([b"x"]))
    assert asked.wait(20)
    threading.Thread(target=appender.close).start()
    with pytest.raises(KafkaUnavailableError, match="was closed"):
        appender.flush()


def test_whoever_flushes_may_wait_for_a_limited_time(started):
    broker, opened = Broker(), Future()
    cluster = started(broker)
    answer = broker.answer

    async def answer_later(request):
        await asyncio.wrap_future(opened)
        return await answer(request)

    broker.answer = answer_later
    appender = Appender(cluster, ME, buffer_bytes=1)
    appender.append("t", 0, raw([b"x"]))
    assert not appender.flushed(0.001)
    assert appender.flushed(0.0, but_for=1000)
    opened.set_result(None)
    wait_until(lambda: appender.flushed(0.0))
    appender.close()
    with pytest.raises(KafkaUnavailableError, match="was closed"):
        appender.flushed(0.0)


def test_a_closed_appender_no_longer_looks_for_a_leader(started):
    cluster, looked_up = started(Broker()), []

    async def find_leader(_topic, _partition, deadline):
        assert deadline.left_ms <= 5_000
        looked_up.append(1)
        await asyncio.sleep(0.001)
        raise protocol.LeaderNotAvailableError("t-0")

    cluster.find_leader = find_leader
    appender = Appender(cluster, None)
    appender.append("t", 0, raw([b"x"]))
    wait_until(lambda: len(looked_up) > 3)
    appender.close()
    wait_until(lambda: len(asyncio.all_tasks(cluster.io.loop)) == 0)


def test_the_appender_gives_up_after_the_delivery_timeout(started):
    broker = Broker([protocol.NotEnoughReplicasError.errno] * 1000)
    appender = Appender(started(broker), ME, delivery_timeout_ms=20)
    appender.append("t", 0, raw([b"x"]))
    with pytest.raises(ConnectError, match="1 record could not be appended to t-0"):
        appender.flush()


def test_a_partition_that_takes_no_records_for_long_is_named(started, monkeypatch, caplog):
    monkeypatch.setattr(sender, "LONG_S", 0.0)
    appender = Appender(started(Broker([protocol.NotEnoughReplicasError.errno] * 3)), ME)
    appender.append("t", 0, raw([b"x"]))
    appender.flush()
    assert [text for text in caplog.messages if text.startswith("Records for partition t-0 are sent again and again: ")
            and "NotEnoughReplicas" in text]
