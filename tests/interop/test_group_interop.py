"""One group of a Java Kafka Connect worker and a heeler member; and heeler's bytes read by Kafka Connect's classes."""

import os
import shutil
import subprocess
from contextlib import nullcontext
from pathlib import Path

import pytest
from kafka import KafkaAdminClient

from actors.assignment.codec import encode_assignment, encode_metadata
from actors.assignment.protocol import Allocation, Assignment, AssignmentError, MemberMetadata, Protocol
from actors.messages.commands import RequestRejoin
from heeler.embedded_kafka.jars import classpath, resolve
from heeler.embedded_kafka.java import find_java
from spark_tasks.kafka.admin import KafkaAdmin
from storage.config.fold import fold
from storage.config.state import ClusterConfigState
from storage.ids import ConnectorTaskId
from storage.log.topic_log import KafkaTopicLog
from tests.rigs.group_herder import FakeHerder
from tests.rigs.jar_sets import CONNECT
from tests.rigs.java_worker import JavaWorker
from tests.rigs.support import wait_until

pytestmark = pytest.mark.interop

NAMES = ("a", "b", "c", "d")


@pytest.fixture
def java(tmp_path, worker_properties):
    worker = JavaWorker(tmp_path, worker_properties)
    yield worker
    worker.close()


@pytest.fixture
def member(broker, worker_properties):
    """A heeler member whose config state follows the real config topic; it owns work but runs none."""
    clients = {"bootstrap_servers": broker.bootstrap_servers}
    herder = FakeHerder(
        broker.bootstrap_servers, worker_properties["group.id"], "heeler", config=ClusterConfigState(), max_delay_ms=0,
        heartbeat_interval_ms=500,
    )
    deferred = {}

    def follow_topic(records):
        nonlocal deferred
        herder.config, deferred, changes = fold(herder.config, deferred, records, started=True)
        if changes and herder.membership:
            herder.member.tell(RequestRejoin("the config topic changed"))

    admin = KafkaAdminClient(bootstrap_servers=broker.bootstrap_servers)
    log = KafkaTopicLog(worker_properties["config.storage.topic"], clients, nullcontext(KafkaAdmin(admin)),
                        client_id="heeler-configs", writable=False)

    def start():
        log.start(follow_topic, lambda _error: None).result(30)
        return herder.join()

    herder.start = start
    yield herder
    herder.member.stop()
    log.stop()
    admin.close()


def create_connectors(java, folder):
    for name in NAMES:
        source = folder / f"{name}.txt"
        source.write_text("line\n")
        java.rest.put_config(
            name, {"connector.class": "FileStreamSource", "tasks.max": "1", "file": str(source), "topic": f"t-{name}"}
        )
    every = {*NAMES, *(ConnectorTaskId(name, 0) for name in NAMES)}
    wait_until(lambda: java.running() == every, 30, "all connectors on the Java worker")
    return every


def shared(java, member, every):
    """Whether each item is run by exactly one of the two, half each."""
    owned = set(member.owned.items)
    assert len(member.owned.connectors) == len(member.owned.tasks) == 2
    assert java.running() == every - owned
    return True


def test_java_and_heeler_share_work_whichever_leads(java, member, tmp_path):
    java.start()
    every = create_connectors(java, tmp_path)

    member.start()
    assert member.joined(30).protocol is Protocol.SESSIONED
    wait_until(lambda: shared(java, member, every), 30, "half of the work each, Java leading")
    assert member.membership.assignment.leader_url == java.url
    assert member.membership.assignment.config_offset == member.config.offset

    java.stop()
    wait_until(lambda: set(member.owned.items) == every, 30, "heeler takes over")
    assert member.membership.is_leader

    java.start()
    wait_until(lambda: shared(java, member, every), 60, "half of the work each, heeler leading")
    assert member.membership.is_leader
    owners = dict(member.membership.owners)
    assert owners.keys() == every
    assert {item for item, url in owners.items() if url == java.url} == java.running()


FULL = Assignment(
    "leader-1", "http://leader:8083/", 42,
    Allocation(("a",), (ConnectorTaskId("a", 0), ConnectorTaskId("c", 7))),
    Allocation(("d",), (ConnectorTaskId("d", 0),)), 300_000,
)
FAILED = Assignment("leader-1", "http://leader:8083/", 9, error=AssignmentError.CONFIG_MISMATCH)


def test_kafka_connect_reads_what_heeler_writes(tmp_path):
    jars = classpath(resolve(CONNECT))
    source = Path(__file__).parents[1] / "golden/group/Golden.java"
    compiler = shutil.which("javac") or str(Path(find_java()).with_name("javac"))
    subprocess.run([compiler, "-cp", jars, "-d", str(tmp_path), str(source)], check=True, capture_output=True)
    owned = MemberMetadata("http://wörker:8083/", 42, FULL.assigned)
    lines = [("metadata", encode_metadata(owned, protocol)) for protocol in (Protocol.SESSIONED, Protocol.COMPATIBLE)]
    lines += [("metadata", encode_metadata(MemberMetadata("http://w:1/", -1), Protocol.SESSIONED))]
    lines += [("assignment", encode_assignment(FULL, protocol)) for protocol in Protocol]
    lines += [("assignment", encode_assignment(FAILED, Protocol.SESSIONED))]
    answer = subprocess.run(
        [find_java(), "-Dfile.encoding=UTF-8", "-Dstdout.encoding=UTF-8", "-cp", f"{tmp_path}{os.pathsep}{jars}",
         "org.apache.kafka.connect.runtime.distributed.Golden", "--read"],
        input="".join(f"{kind} {data.hex()}\n" for kind, data in lines),
        text=True, capture_output=True, check=True, encoding="utf-8",
    ).stdout.splitlines()
    led = "error=0, leader='leader-1', leaderUrl='http://leader:8083/', offset=42"
    given = f"{led}, connectorIds=[a], taskIds=[a-0, c-7]"
    full = f"Assignment{{{given}, revokedConnectorIds=[d], revokedTaskIds=[d-0], delay=300000}}"
    assert answer[0] == answer[1] == "http://wörker:8083/ 42 [a] [a-0, c-7]"
    assert answer[2] == "http://w:1/ -1 [] []"
    assert answer[3] == answer[4] == full
    assert answer[5] == f"Assignment{{{given}, revokedConnectorIds=[], revokedTaskIds=[], delay=0}}"
    assert "error=1" in answer[6]
    assert "offset=9" in answer[6]
