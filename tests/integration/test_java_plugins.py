"""Java plugins on a real worker: Kafka's own connect-file, and one that misbehaves."""

from __future__ import annotations

import socket
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from heeler.java_host.frames import message
from tests.rigs.java_jars import plugin_folder
from tests.rigs.support import wait_until
from tests.rigs.workers import PATIENT, PLUGINS, Rig, processes_of, running_worker, wait_gone

pytestmark = pytest.mark.integration

FILE_SOURCE = "org.apache.kafka.connect.file.FileStreamSourceConnector"
FILE_SINK = "org.apache.kafka.connect.file.FileStreamSinkConnector"
MODE = "heeler.tests.ModeSource"
LONGS = {"value.converter": "org.apache.kafka.connect.converters.LongConverter"}
MODES = ("count", "exit", "hang", "hang-start", "throw", "memory", "retry", "raise", "reconfigure")
COMPILED_S = 170.0  # numba, where it has compiled nothing yet
SLOW_S = 60.0  # a JVM starts on a busy machine


@pytest.fixture(scope="module")
def java_worker(kafka, tmp_path_factory):
    """A worker with jars in its plugin.path, and records that have come from them."""
    folder = plugin_folder(tmp_path_factory.mktemp("jars"))
    more = {"plugin_path": f"{PLUGINS},{folder}", "java_plugins_prefer": FILE_SOURCE,
            "java_plugins_jvm_options": "-Xmx128M -XX:TieredStopAtLevel=1", "exactly_once_source_support": "enabled"}
    with running_worker(kafka, tmp_path_factory.mktemp("worker"), "java-worker", **more, **PATIENT) as rig:
        rig.create("warm-java", counting("warm-java"))
        rig.wait_records("warm-java", 10, COMPILED_S)
        rig.tidy()
        yield rig


@pytest.fixture
def rig(java_worker, tmp_path):
    assert java_worker.process.exit_code() is None, java_worker.process.tail()
    own = Rig(java_worker.process, java_worker.kafka, tmp_path)
    yield own
    own.tidy()


def counting(topic, mode="count", **more):
    return {"connector.class": MODE, "topic": topic, "mode": mode, "records": "10", **LONGS, **more}


def jvm(rig):
    """The host's process."""
    (found,) = [p for p in processes_of(rig.process) if p.name() == "java" and "heeler.host.Host" in p.cmdline()]
    return found


def numbers(rig, topic):
    return [int.from_bytes(m.value(), "big") for m in rig.kafka.messages(topic)]


def offsets(rig, name):
    return [o["offset"] for o in rig.call("GET", f"/connectors/{name}/offsets")["offsets"]]


def test_java_plugins_are_listed_described_and_validated(rig):
    shown = {p["class"]: p for p in rig.call("GET", "/connector-plugins?connectorsOnly=false")}
    assert shown[MODE] == {"class": MODE, "type": "source", "version": "7.1"}
    assert shown[FILE_SOURCE]["version"] == "4.3.1"
    log = rig.process.log.read_text()
    assert "broken.jar cannot be read" in log
    assert f"{FILE_SINK}: heeler's own is taken" in log  # since nobody prefers Java's
    keys = {k["name"]: k for k in rig.call("GET", "/connector-plugins/ModeSource/config")}
    assert keys["mode"]["default_value"] == "count"
    assert keys["records"]["type"] == "INT"
    assert "tasks.max" in keys

    def errors(**config):
        answer = rig.call("PUT", f"/connector-plugins/{config['connector.class']}/config/validate", config)
        return {c["value"]["name"]: c["value"]["errors"] for c in answer["configs"] if c["value"]["errors"]}

    assert errors(**counting("t", "nonsense", name="n", records="many")) == {
        "mode": [f"Invalid value nonsense for configuration mode: String must be one of: {', '.join(MODES)}"],
        "records": ["Invalid value many for configuration records: Not a number of type INT"],
    }
    python = errors(**counting("t", name="n", transforms="m", **{"transforms.m.type": "MarkOne"}))
    assert ["is a Python plugin" in message for message in python["transforms.m.type"]] == [True]


def test_lines_of_a_file_with_java_transforms_and_converters(rig, topic_name):
    """Pause, resume, restart, delete; offsets as Java writes them."""
    file = rig.folder / "lines"
    file.write_text("one\ntwo\n")
    config = {
        "connector.class": FILE_SOURCE, "file": str(file), "topic": topic_name, "transforms": "hoist,add",
        "transforms.hoist.type": "org.apache.kafka.connect.transforms.HoistField$Value",
        "transforms.hoist.field": "line",
        "transforms.add.type": "org.apache.kafka.connect.transforms.InsertField$Value",
        "transforms.add.static.field": "from", "transforms.add.static.value": "file",
        "value.converter": "org.apache.kafka.connect.json.JsonConverter", "value.converter.schemas.enable": "false",
    }
    rig.create(topic_name, config, ["RUNNING", "RUNNING"])
    rig.wait_records(topic_name, 2)
    rig.call("PUT", f"/connectors/{topic_name}/pause")
    rig.wait_states(topic_name, ["PAUSED", "PAUSED"])
    with file.open("a") as out:
        out.write("three\n")
    rig.call("PUT", f"/connectors/{topic_name}/resume")
    rig.wait_states(topic_name, ["RUNNING", "RUNNING"])
    wait_until(lambda: offsets(rig, topic_name) == [{"position": 14}], what="the offset of the third line")
    rig.call("POST", f"/connectors/{topic_name}/restart?includeTasks=true")
    with file.open("a") as out:
        out.write("four\n")
    wait_until(lambda: offsets(rig, topic_name) == [{"position": 19}], what="the offset of the fourth line")
    rig.wait_states(topic_name, ["RUNNING", "RUNNING"])
    found = [m.value().decode() for m in rig.kafka.messages(topic_name) if m.value()]
    assert found == [f'{{"line":"{line}","from":"file"}}' for line in ("one", "two", "three", "four")]
    rig.delete(topic_name)


def test_records_keep_keys_headers_timestamps_and_offsets_their_numbers(rig, topic_name):
    rig.create(topic_name, counting(topic_name, "retry", records="30"), ["RUNNING", "RUNNING"])
    wait_until(lambda: offsets(rig, topic_name) == [{"next": 9007199254740993 + 30}], what="the last offset")
    found = rig.kafka.messages(topic_name)
    assert [m.key().decode() for m in found] == [f"k{n}" for n in range(30)]
    assert numbers(rig, topic_name) == list(range(30))
    assert [m.timestamp()[1] for m in found] == [1000 + n for n in range(30)]
    assert all([name for name, _ in m.headers()] == ["confirmed"] for m in found)
    tracked = rig.call("GET", f"/connectors/{topic_name}/topics")[topic_name]["topics"]
    assert tracked == [topic_name]


def test_altered_offsets_are_where_it_goes_on(rig, topic_name):
    rig.create(topic_name, counting(topic_name), ["RUNNING", "RUNNING"])
    wait_until(lambda: offsets(rig, topic_name) == [{"next": 9007199254740993 + 10}], what="the last offset")
    rig.call("PUT", f"/connectors/{topic_name}/stop")
    rig.wait_states(topic_name, ["STOPPED"])
    wanted = [{"partition": {"of": "count"}, "offset": {"next": 9007199254740993 + 8}}]
    rig.call("PATCH", f"/connectors/{topic_name}/offsets", {"offsets": wanted})
    rig.call("PUT", f"/connectors/{topic_name}/resume")
    wait_until(lambda: numbers(rig, topic_name)[-2:] == [8, 9] and len(numbers(rig, topic_name)) == 12,
               what="the records from the altered offset on")


def test_a_connector_asks_for_other_tasks(rig, topic_name):
    once = {"once": str(rig.folder / "once"), "tasks.max": "2"}
    rig.create(topic_name, counting(topic_name, "reconfigure", **once), ["RUNNING", "RUNNING", "RUNNING"])


@pytest.mark.parametrize(("mode", "message"), [
    ("throw", "org.apache.kafka.connect.errors.ConnectException: thrown by poll"),
    ("memory", "java.lang.OutOfMemoryError: no heap left, says the plugin"),
])
def test_what_a_task_throws_is_its_own_failure(rig, topic_name, mode, message):
    rig.create(topic_name, counting(topic_name, mode), ["RUNNING", "FAILED"])
    status = rig.call("GET", f"/connectors/{topic_name}/status")
    assert message in status["tasks"][0]["trace"]
    assert "heeler.tests.ModeSource$Counting.poll" in status["tasks"][0]["trace"]
    assert numbers(rig, topic_name) == list(range(5))  # what was polled before is kept


def test_a_connector_that_raises_an_error_is_failed(rig, topic_name):
    rig.create(topic_name, counting(topic_name, "raise"))
    wait_until(lambda: rig.rest.states(topic_name)[:1] == ["FAILED"], what="the failure")
    assert "raised by the connector" in rig.call("GET", f"/connectors/{topic_name}/status")["connector"]["trace"]


@pytest.mark.parametrize("mode", ["hang", "hang-start"])
def test_a_hung_task_is_given_up_and_holds_nobody_up(rig, topic_name, mode):
    rig.create(topic_name, counting(topic_name, mode))
    if mode == "hang":
        rig.wait_records(topic_name, 5)
    other = f"{topic_name}-other"
    rig.create(other, counting(other), ["RUNNING", "RUNNING"])
    rig.delete(topic_name)
    rig.wait_records(other, 10)


def test_the_end_of_the_host_is_noticed_and_all_goes_on(rig, topic_name):
    """Killed, and ended by a plugin: which is FAILED, while the others go on after their offsets, each record once."""
    file = rig.folder / "lines"
    file.write_text("one\n")
    rig.create(topic_name, {"connector.class": FILE_SOURCE, "file": str(file), "topic": topic_name},
               ["RUNNING", "RUNNING"])
    wait_until(lambda: offsets(rig, topic_name) == [{"position": 4}], what="the first offset")
    first = jvm(rig)
    first.kill()
    with file.open("a") as out:
        out.write("two\n")
    wait_until(lambda: offsets(rig, topic_name) == [{"position": 8}], SLOW_S, "the second offset")
    assert first.pid != jvm(rig).pid
    bad = f"{topic_name}-exit"
    rig.create(bad, counting(bad, "exit"))
    rig.wait_states(bad, ["FAILED", "FAILED"], SLOW_S)
    trace = rig.call("GET", f"/connectors/{bad}/status")["tasks"][0]["trace"]
    assert "the plugin called System.exit" in trace
    assert "heeler.tests.ModeSource$Counting.poll" in trace
    with file.open("a") as out:
        out.write("three\n")
    wait_until(lambda: offsets(rig, topic_name) == [{"position": 14}], SLOW_S, "the third offset")
    assert [m.value().decode() for m in rig.kafka.messages(topic_name) if m.value()] == ["one", "two", "three"]
    rig.wait_states(topic_name, ["RUNNING", "RUNNING"])


def test_the_host_is_private_and_ends_with_the_worker(java_worker):
    """Last: the worker is killed."""
    host = jvm(java_worker)
    folder = host.cmdline()[host.cmdline().index("heeler.host.Host") + 1]
    assert Path(folder).stat().st_mode & 0o777 == 0o700
    with socket.socket(socket.AF_UNIX) as stranger:  # who does not know the secret is not answered
        stranger.connect(f"{folder}/socket")
        stranger.sendall(message(0, {"op": "hello", "secret": "guessed"}) + message(1, {"op": "plugins"}))
        answered = b""
        with suppress(ConnectionResetError):
            answered = stranger.recv(1)
        assert answered == b""
    worker = psutil.Process(java_worker.process.pid).children()[0]
    worker.kill()
    wait_gone([host, worker])
    wait_until(lambda: not Path(folder).exists(), what="the end of the host's folder")
