"""`heeler topics read` against a real broker."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from heeler.cli.main import main
from tests.rigs.support import wait_until

pytestmark = pytest.mark.integration


class Topic:
    def __init__(self, servers: str, name: str) -> None:
        self.servers, self.name = servers, name
        admin = AdminClient({"bootstrap.servers": servers})
        admin.create_topics([NewTopic(name, 2, 1)])[name].result(30)
        self.producer = Producer({"bootstrap.servers": servers, "compression.type": "zstd"})

    def write(self, *values: bytes, partition: int = 0) -> None:
        for value in values:
            self.producer.produce(self.name, value, b"k\x1b[2J", partition, timestamp=1000, headers=[("h", b"\x07")])
        self.producer.flush(30)

    def read(self, *arguments: str) -> Result:
        return CliRunner().invoke(main, ["topics", "read", self.name, *arguments], catch_exceptions=False)


@pytest.fixture
def topic(broker: Any, topic_name: str) -> Topic:
    return Topic(broker.bootstrap_servers, topic_name)


def values(text: str) -> list[Any]:
    return [json.loads(line)["value"] for line in text.splitlines()]


def test_records_are_printable_lines(topic: Topic, worker_properties: dict[str, str], tmp_path: Path) -> None:
    topic.write(b'{"n":1}', b"two", b"\x1b]0;owned\x07")
    topic.write(b"4", partition=1)
    result = topic.read("--bootstrap-servers", topic.servers)
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.splitlines()[0] == (
        '{"partition":0,"offset":0,"timestamp":"1970-01-01T00:00:01.000Z","key":"k\\u001b[2J","value":{"n":1},'
        '"headers":[["h","\\u0007"]]}'
    )
    assert values(result.stdout) == [{"n": 1}, "two", "\x1b]0;owned\x07", 4]
    assert result.stdout.replace("\n", "").isprintable()
    file = tmp_path / "worker.properties"
    file.write_text("".join(f"{key}={value}\n" for key, value in worker_properties.items()))
    assert values(topic.read("--worker-config", str(file), "--limit", "2").stdout) == [{"n": 1}, "two"]
    file.write_text(file.read_text() + "heeler.max.record.bytes=10\n")
    refused = topic.read("--worker-config", str(file))
    assert refused.exit_code == 2
    assert f"heeler: the record of {topic.name}-0 at offset 0 has" in refused.stderr


def test_new_records_are_printed_as_they_are_written(topic: Topic, tmp_path: Path) -> None:
    topic.write(b"old")
    log = tmp_path / "lines"
    command = [sys.executable, "-m", "heeler", "topics", "read", topic.name, "--bootstrap-servers", topic.servers]
    with log.open("wb") as file, subprocess.Popen([*command, "--follow"], stdout=file) as reading:
        try:
            wait_until(lambda: values(log.read_text()) == ["old"], 60, "what was there")
            topic.write(b"1")
            wait_until(lambda: values(log.read_text()) == ["old", 1], 30, "what is new")
            topic.write(b"2", partition=1)
            wait_until(lambda: values(log.read_text()) == ["old", 1, 2], 30, "what is new in another partition")
            reading.send_signal(signal.SIGINT)
            assert reading.wait(30) == 0
        finally:
            reading.kill()
    assert topic.read("--bootstrap-servers", topic.servers, "--from-end").output == ""


def test_missing_topics_are_reported(broker: Any, topic_name: str) -> None:
    run = CliRunner().invoke
    result = run(main, ["topics", "read", topic_name, "--bootstrap-servers", broker.bootstrap_servers])
    assert (result.exit_code, result.stdout) == (2, "")
    assert f"heeler: topic '{topic_name}' does not exist" in result.stderr
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    assert topic_name not in admin.list_topics(timeout=30).topics, "reading makes no topic"


def test_the_option_for_brokers_replaces_those_of_a_worker_file(topic: Any, tmp_path: Path) -> None:
    topic.write(b"1")
    file = tmp_path / "worker.properties"
    for text in ("bootstrap.servers=nowhere.invalid:1", "plugin.path="):
        file.write_text(text)
        result = topic.read("--worker-config", str(file), "--bootstrap-servers", topic.servers, "--limit", "1")
        assert values(result.output) == [1]
