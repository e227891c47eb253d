"""Values of config providers stay in the worker: other users of the machine cannot read them."""

from __future__ import annotations

import os
import shutil
import socket
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.rigs.connector_states import states_of
from tests.rigs.support import wait_until
from tests.rigs.workers import Kafka, Rig, processes_of, running_worker

pytestmark = [pytest.mark.integration, pytest.mark.timeout(400)]

PASSWORD = "pa$$w0rd & 'quoted' \\ \"é\""  # noqa: S105 - a test's
PROVIDER = {"config_providers": "file", "config_providers_file_class": "FileConfigProvider"}
RUNNING, FAILED = "RUNNING", "FAILED"
STRANGER = Path(__file__).parent.parent / "rigs" / "stranger.py"


@pytest.fixture(scope="module")
def world() -> Iterator[Path]:
    """A folder of temporary files that is everybody's, as /tmp is."""
    folder = Path(tempfile.mkdtemp(prefix="hs-", dir="/tmp"))
    folder.chmod(0o1777)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def secrets(world: Path) -> Path:
    """What the provider reads; as the operator has it, for the worker's user only."""
    file = world / "secrets.properties"
    file.touch(0o600)
    escaped = PASSWORD.replace("\\", "\\\\")
    file.write_text(f"password={escaped}\nnumber=s3cr3t-number\n", encoding="utf-8")
    return file


@pytest.fixture(scope="module")
def rig(kafka: Kafka, world: Path, secrets: Path) -> Iterator[Rig]:
    """A worker that is careless about files (umask 0), with its temporary files in that folder."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TMPDIR", str(world))
        patch.setenv("JAVA_TOOL_OPTIONS", f"-Djava.io.tmpdir={world}")
        patch.setenv("HEELER_TEST_PASSWORD", PASSWORD)
        before = os.umask(0)
        try:
            more = {"heeler_spark_start_delay_ms": "0",
                    "spark_hadoop_fs_s3a_secret_key": f"${{file:{secrets}:number}}"}
            with running_worker(kafka, world / "worker", "secrets-worker", **PROVIDER, **more) as rig:
                yield rig
        finally:
            os.umask(before)


PLACES = {  # where LeakingSource and LeakingSink say their password, and the states after that
    "start": [FAILED], "tasks": [RUNNING], "plan": [RUNNING, FAILED], "read": [RUNNING, FAILED],
    "write": [RUNNING, FAILED],
}


def test_provided_values_appear_in_no_text_of_the_worker(rig: Rig, secrets: Path, topic_name: str) -> None:
    """Connectors that fail everywhere with it in their messages: validation, start, task configs, planning, and on
    executors a reader and a writer.
    """
    password, number = f"${{file:{secrets}:password}}", f"${{file:{secrets}:number}}"
    rig.kafka.create(topic_name)
    rig.kafka.send(topic_name, ["for the sink"])
    config = {"password": password, "connector.class": "LeakingSource", "topic": f"{topic_name}-out"}
    reported = [str(rig.refused("PUT", f"/connectors/{topic_name}/config", {**config, **wrong})) for wrong in (
        {"at": "validate"}, {"at": "message"}, {"tasks.max": number}, {"connector.class": number},
        {"transforms": number}, {"value.converter": f"x{number}"}, {"connector.class": None, "x": number},
    )]
    assert "Invalid value [hidden] for configuration tasks.max: Not a number of type INT" in reported[2]
    validated = rig.call("PUT", "/connector-plugins/LeakingSource/config/validate", {
        **config, "name": topic_name, "tasks.max": number})
    reported.append(repr(validated))
    assert password in {c["value"]["value"] for c in validated["configs"] if c["value"]}, "shown as it was written"
    for place, states in PLACES.items():
        own = {**config, "at": place}
        if place == "write":
            own = {**own, "connector.class": "LeakingSink", "topics": topic_name}
        rig.create(f"{topic_name}-{place}", own)
        rig.wait_states(f"{topic_name}-{place}", states, 120)
    wait_until(lambda: "tasks: cannot log in with" in rig.process.log.read_text(), 30, "the failure of task_configs")
    for place in PLACES:
        status = rig.call("GET", f"/connectors/{topic_name}-{place}/status")
        if place != "tasks":
            assert f"{place}: cannot log in with [hidden]" in repr(status)
        reported += [repr(status), repr(rig.call("GET", f"/connectors/{topic_name}-{place}"))]
    reported.append(repr(rig.call("GET", "/connectors?expand=status&expand=info")))
    topics = [rig.process.properties[f"{kind}.storage.topic"] for kind in ("status", "config", "offset")]
    reported += [repr((m.key(), m.value())) for topic in topics for m in rig.kafka.messages(topic)]
    log = rig.process.log.read_text()
    assert "read with [hidden]" in log, "what an executor writes to standard error"
    assert "cannot log in with [hidden]" in log
    for secret in (PASSWORD, "pa$$w0rd", "s3cr3t-number", PASSWORD.encode("unicode_escape").decode()):
        shown = [line for text in (*reported, log) for line in text.splitlines() if secret in line]
        assert shown == []


def own_unix_sockets(folder: Path) -> list[str]:
    return [str(path) for path in folder.rglob("*") if stat.S_ISSOCK(path.lstat().st_mode)]


def listening(rig: Rig) -> set[int]:
    found = [c for p in processes_of(rig.process) for c in p.net_connections("tcp")]
    return {c.laddr.port for c in found if c.status == psutil.CONN_LISTEN}


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")
def test_another_user_of_the_machine_gains_no_access(rig: Rig, world: Path, secrets: Path, topic_name: str) -> None:
    config = {"connector.class": "LeakingSource", "topic": topic_name, "password": f"${{file:{secrets}:password}}"}
    rig.create(topic_name, config, [RUNNING, RUNNING])
    rig.wait_records(topic_name, 5, 120)
    wait_until(lambda: "Spark started in" in rig.process.log.read_text(), 120, "Spark, which records do not wait for")
    wait_until(lambda: len(listening(rig)) >= 4, 60, "REST, and three ports of Spark's JVM")
    family, ports = processes_of(rig.process), listening(rig)
    assert [p for p in family if p.name() == "java"]
    sockets = wait_until(lambda: own_unix_sockets(world), what="Unix sockets of Spark and its Python workers")
    control = world / "control"
    control.write_text("for everybody to read")
    control.chmod(0o644)
    with socket.socket(socket.AF_UNIX) as door:
        door.bind(str(world / "door"))
        (world / "door").chmod(0o777)
        door.listen()
        lists = [sorted(map(str, ports)), [*sockets, str(world / "door")], [str(world)], [str(p.pid) for p in family]]
        said = subprocess.run([sys.executable, str(STRANGER), *map(":".join, lists)],
                              capture_output=True, check=True, timeout=300).stdout
    # It is no stranger who sees nothing at all:
    assert b"for everybody to read" in said
    assert b"door let me in" in said
    assert b"kafka_cluster_id" in said
    assert b"SparkSubmit" in said
    assert b" gave a block" not in said
    assert said.count(b" let me in") == 1, "only where everybody is"
    for secret in (PASSWORD.encode(), b"pa$$w0rd", b"s3cr3t-number"):
        assert secret not in said
    assert states_of(rig.rest, topic_name) == [RUNNING, RUNNING], "and does no harm"
    log = rig.process.log.read_text()
    assert "WARN TransportChannelHandler: Exception in connection from" in log, "who knocks is told of"
    assert "\tat org.apache.spark.network" not in log, "in one line"
