"""The embedded Kafka: it is started, stopped and killed, and leaves nothing behind."""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

import psutil
import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient

from heeler.embedded_kafka.broker import EmbeddedBroker
from heeler.embedded_kafka.folder import FEATURES, BrokerFolder
from heeler.embedded_kafka.jars import BROKER, resolve
from heeler.embedded_kafka.ports import free_port, serves_kafka
from heeler.errors import SetupError
from spark_tasks.kafka.cluster import KafkaCluster
from tests.rigs.support import BACK_SOON, wait_until
from tests.rigs.suspended_broker import suspended

pytestmark = pytest.mark.integration
HEELER = [sys.executable, "-m", "heeler"]


def produce(bootstrap, topic, *values):
    producer = Producer({"bootstrap.servers": bootstrap})
    for value in values:
        producer.produce(topic, value)
    assert producer.flush(30) == 0


def consume(bootstrap, topic, count):
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "g", "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    try:
        messages = []
        wait_until(lambda: messages.extend(consumer.consume(count, 0.5)) or len(messages) >= count, 30, "the records")
        return [m.value() for m in messages]
    finally:
        consumer.close()


def processes_about(text):
    return [p for p in psutil.process_iter(["cmdline"]) if any(str(text) in x for x in p.info["cmdline"] or ())]


def test_the_fixture_serves_records_to_an_independent_client(broker, topic_name):
    produce(broker.bootstrap_servers, topic_name, b"a", b"b")
    assert consume(broker.bootstrap_servers, topic_name, 2) == [b"a", b"b"]
    metadata = AdminClient({"bootstrap.servers": broker.bootstrap_servers}).list_topics(timeout=10)
    assert [f"{b.host}:{b.port}" for b in metadata.brokers.values()] == [broker.bootstrap_servers]


def test_a_second_broker_runs_beside_the_first_and_leaves_nothing_behind(broker):
    with EmbeddedBroker(quick=True) as second:
        assert second.bootstrap_servers != broker.bootstrap_servers
        folder = second.data_dir
        assert processes_about(folder)
        with pytest.raises(SetupError, match=f"Port {broker.port} .* is in use"):
            EmbeddedBroker(broker.port).start()
    assert not folder.exists()
    wait_until(lambda: not processes_about(folder), what="its end")
    assert serves_kafka(broker.host, broker.port)


def test_a_broker_that_fails_and_returns_keeps_port_and_records(topic_name):
    with EmbeddedBroker(quick=True, settings=BACK_SOON) as own:
        address = own.bootstrap_servers
        produce(address, topic_name, b"1")
        own.stop(graceful=False)
        assert not own.running
        own.start()
        assert own.bootstrap_servers == address
        assert consume(address, topic_name, 1) == [b"1"]
        cluster = KafkaCluster({"bootstrap_servers": address, "request_timeout_ms": 600_000})
        by_now = partial(cluster.offsets_by_now, [(topic_name, 0)], "latest", "read_uncommitted", timeout_ms=5000)
        try:
            assert by_now() == {(topic_name, 0): 1}
            with suspended(own):
                wait_until(lambda: not serves_kafka(own.host, own.port, 0.3), what="the broker to hang")
                assert by_now() == {}, "it is not waited for as long as for a request"
        finally:
            cluster.close()
        wait_until(lambda: serves_kafka(own.host, own.port), what="the broker to go on")


def test_settings_reach_the_broker_and_bad_ones_are_reported():
    with pytest.raises(SetupError, match=r"Kafka failed to start.*num.partitions"):
        EmbeddedBroker(quick=True, settings={"num.partitions": "none"}).start()


def test_no_process_and_no_folder_after_the_parent_is_killed(tmp_path):
    program = (
        "import time; from heeler.embedded_kafka.broker import EmbeddedBroker\n"
        "b = EmbeddedBroker(quick=True); b.start(); print(b.data_dir, flush=True); time.sleep(600)"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as parent:
        folder = Path(parent.stdout.readline().strip())
        assert processes_about(folder)
        parent.kill()
    wait_until(lambda: not processes_about(folder), what="the end of Kafka")
    wait_until(lambda: not folder.exists(), what="the removal of its folder")


class Foreground:
    """`heeler broker` as a user runs it."""

    def __init__(self, *arguments):
        self.process = subprocess.Popen(
            [*HEELER, "broker", *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.communicate()

    def ready(self):
        line = self.process.stdout.readline()
        assert "Ctrl-C stops it" in line, self.process.stderr.read()
        return line

    def end(self, how):
        self.process.send_signal(how)
        out, err = self.process.communicate(timeout=40)
        assert err == ""
        return self.process.returncode, out


def test_the_broker_command_keeps_its_data_between_runs(tmp_path, topic_name):
    port, data = free_port(), tmp_path / "data"
    for how, value in ((signal.SIGINT, b"1"), (signal.SIGTERM, b"2")):
        with Foreground("--port", str(port), "--data-dir", str(data)) as run:
            assert f"127.0.0.1:{port}" in run.ready()
            produce(f"127.0.0.1:{port}", topic_name, value)
            with pytest.raises(SetupError, match="in use by another heeler broker"):
                EmbeddedBroker(data_dir=data).start()
            assert run.end(how) == (0, "Stopping Kafka.\n")
    with EmbeddedBroker(port, data, quick=True) as again:
        assert consume(again.bootstrap_servers, topic_name, 2) == [b"1", b"2"]
    wait_until(lambda: not processes_about(data), what="the end of Kafka")
    assert data.exists()


def test_ctrl_c_during_the_start_stops_kafka(tmp_path):
    with Foreground("--port", "0", "--data-dir", str(tmp_path / "data")) as run:
        wait_until((tmp_path / "data" / "server.properties").exists, what="the start")
        code, out = run.end(signal.SIGINT)
    assert (code, out) == (0, "Stopping Kafka.\n")
    wait_until(lambda: not processes_about(tmp_path), what="the end of Kafka")


def test_a_folder_formatted_by_another_cluster_exits_with_code_2(tmp_path):
    folder = BrokerFolder.open(tmp_path, "MkU3OEVBNTcwNTJENDM2Qg")
    (tmp_path / "heeler-broker.features").touch()
    folder.format_like(tmp_path / "heeler-broker.features")
    folder.release()
    file = tmp_path / "kafka" / "meta.properties"
    file.write_text(re.sub("(?m)^cluster.id=.*$", "cluster.id=MkU3OEVBNTcwNTJENDM2Qk", file.read_text()))
    run = subprocess.run(
        [*HEELER, "broker", "--port", "0", "--data-dir", str(tmp_path)],
        capture_output=True, text=True, timeout=60, check=False,
    )
    assert run.returncode == 2
    assert "was formatted by another cluster" in run.stderr
    assert "Traceback" not in run.stderr


@pytest.mark.nightly
def test_the_first_broker_leaves_an_archive_and_features_that_the_next_one_uses(tmp_path, monkeypatch):
    cache = tmp_path / "cache"
    shutil.copytree(resolve(BROKER), cache / BROKER.folder, ignore=shutil.ignore_patterns("*.jsa", FEATURES))
    monkeypatch.setenv("HEELER_CACHE", str(cache))
    with EmbeddedBroker(quick=True) as first:
        written = (first.data_dir / "kafka" / FEATURES).read_bytes()
    (archive,) = cache.rglob("*.jsa")
    with EmbeddedBroker(quick=True) as again:
        assert (again.data_dir / "kafka" / FEATURES).read_bytes() == written
        words = [word for p in processes_about(again.data_dir) for word in p.cmdline()]
        assert {f"-XX:SharedArchiveFile={archive}", "-XX:TieredStopAtLevel=1"} <= set(words)
    assert list(cache.rglob("*.jsa")) == [archive]
