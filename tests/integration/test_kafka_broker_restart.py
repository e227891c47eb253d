"""A broker is killed and restarted during appending and reading: every record is read once, in order."""

from __future__ import annotations

import threading

import pyarrow as pa
import pytest
from kafka.errors import KafkaConnectionError
from kafka.protocol.producer import ProduceRequest

from heeler.embedded_kafka.broker import EmbeddedBroker
from spark_tasks.data.columns import RAW_SCHEMA
from spark_tasks.kafka.append import Appender
from spark_tasks.kafka.client_config import client_settings
from spark_tasks.kafka.cluster import KafkaCluster
from spark_tasks.kafka.fetch import read_range
from tests.rigs.support import BACK_SOON

pytestmark = pytest.mark.integration

ROWS = 5_000
BATCHES = 100


def raw(number):
    rows = [
        {"offset": 0, "timestamp": -1, "key": None, "value": b"%09d" % (number * ROWS + row) * 5, "headers": None}
        for row in range(ROWS)
    ]
    return pa.RecordBatch.from_pylist(rows, schema=RAW_SCHEMA)


def test_appending_and_reading_continue_after_a_crash():
    with EmbeddedBroker(quick=True, settings=BACK_SOON) as broker:
        cluster = KafkaCluster(client_settings({"bootstrap.servers": broker.bootstrap_servers}))
        appender = Appender(cluster, cluster.init_producer_id(), max_batch_bytes=20_000)
        begun, templates = threading.Event(), [raw(number) for number in range(10)]

        def crash():
            begun.wait(60)
            broker.stop(graceful=False)
            broker.start()

        crasher = threading.Thread(target=crash)
        crasher.start()
        for number in range(BATCHES):
            appender.append("t", 0, templates[number % 10])
            if number == BATCHES // 10:
                begun.set()
        appender.flush()
        crasher.join()
        total = ROWS * BATCHES
        assert cluster.offsets([("t", 0)]) == {("t", 0): total}
        assert appender.sequences == {("t", 0): total}

        begun.clear()
        crasher = threading.Thread(target=crash)
        crasher.start()
        position = 0
        for batch in read_range(cluster, "t", 0, 0, total, fetch_bytes=500_000):
            values = batch.column("value").to_pylist()
            expected = [b"%09d" % ((position + n) % (ROWS * 10)) * 5 for n in range(len(values))]
            assert values == expected
            position += len(values)
            begun.set()
        crasher.join()
        assert position == total
        cluster.close()


def test_batches_that_a_restarted_broker_has_forgotten_are_appended_once(monkeypatch):
    """After a restart, a broker knows only the last batch of a producer, and rejects those before it as out of order:
    here all batches of three requests, whose responses are lost.
    """
    with EmbeddedBroker(quick=True, settings=BACK_SOON) as broker:
        cluster = KafkaCluster(client_settings({"bootstrap.servers": broker.bootstrap_servers}))
        appender = Appender(cluster, cluster.init_producer_id(), max_batch_bytes=20_000)
        appender.append("t", 0, raw(0).slice(0, 1))
        appender.flush()
        send, lost, restarted = cluster.io.send, threading.Semaphore(0), threading.Event()

        async def send_and_lose(request, node, **options):
            if isinstance(request, ProduceRequest) and not restarted.is_set():
                await send(request, node, **options)
                lost.release()
                while not restarted.is_set():
                    await cluster.io.sleep(50)
                raise KafkaConnectionError("the broker was restarted")
            return await send(request, node, **options)

        monkeypatch.setattr(cluster.io, "send", send_and_lose)
        appender.append("t", 0, raw(1))
        for _ in range(3):
            assert lost.acquire(timeout=30)
        broker.stop(graceful=False)
        broker.start()
        restarted.set()
        appender.flush()
        assert cluster.offsets([("t", 0)]) == {("t", 0): ROWS + 1} == appender.sequences
        cluster.close()
