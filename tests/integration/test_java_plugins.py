"""Java plugins on a real worker: Kafka's own connect-file, and one that misbehaves."""

from __future__ import annotations

import re
import socket
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from heeler.java_host.frames import message
from tests.rigs.java_jars import plugin_folder
from tests.rigs.support import wait_until
from tests.rigs.workers import JSON, PATIENT, PLUGINS, Rig, processes_of, running_worker, wait_gone

pytestmark = pytest.mark.integration

FILE_SOURCE = "org.apache.kafka.connect.file.FileStreamSourceConnector"
FILE_SINK = "org.apache.kafka.connect.file.FileStreamSinkConnector"
MODE = "heeler.tests.ModeSource"
NOTES = "heeler.tests.NoteSink"
LONGS = {"value.converter": "org.apache.kafka.connect.converters.LongConverter"}
MODES = ("count", "exit", "hang", "hang-start", "hang-connector", "throw", "memory", "leak", "measure", "retry",
         "raise", "reconfigure", "mixed", "transactions")
COMPILED_S = 170.0  # numba, where it has compiled nothing yet
SLOW_S = 60.0  # a JVM starts on a busy machine


@pytest.fixture(scope="module")
def java_worker(kafka, tmp_path_factory):
    """A worker with jars in its plugin.path, and records that have come from them."""
    folder = plugin_folder(tmp_path_factory.mktemp("jars"))
    more = {"plugin_path": f"{PLUGINS},{folder}", "java_plugins_prefer": f"{FILE_SOURCE},{FILE_SINK}",
            "offset_flush_interval_ms": "500",
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


def jvms(rig):
    """The processes of the worker's hosts."""
    return [p for p in processes_of(rig.process) if p.name() == "java" and "heeler.host.Host" in p.cmdline()]


def jvm(rig):
    """The host's process."""
    (found,) = jvms(rig)
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
    assert f"{JSON}: heeler's own is taken" in log  # since nobody prefers Java's
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
    passing = {"transforms": "p", "transforms.p.type": "heeler.tests.Measured$Pass"}
    assert errors(**counting("t", name="n", **passing)) == {}
    assert errors(**counting("t", name="n", **passing, **{"transforms.p.which": "none"})) == {
        "transforms.p.which": ["Invalid value none for configuration which: String must be one of: all, some"]}
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
    rig.kafka.create(topic_name, partitions=3)
    rig.create(topic_name, counting(topic_name, "retry", records="30", tell="yes"), ["RUNNING", "RUNNING"])
    wait_until(lambda: offsets(rig, topic_name) == [{"next": 9007199254740993 + 30}], what="the last offset")
    found = rig.kafka.messages(topic_name)
    rows = sorted((int.from_bytes(m.value(), "big"), m.key().decode(), m.timestamp()[1]) for m in found)
    assert rows == [(n, f"k{n}", 1000 + n) for n in range(30)]
    told = {f"committed {m.key().decode()} at {topic_name}-{m.partition()}@{m.offset()} of {m.timestamp()[1]}, "
            f"{len(m.key())}+8" for m in found}
    wait_until(lambda: told <= set(re.findall(r"committed k.*\+8", rig.process.log.read_text())), what="commitRecord")
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
    ("throw", "org.apache.kafka.connect.errors.ConnectException: thrown by poll of 7.1"),
    ("memory", "java.lang.OutOfMemoryError: no heap left, says the plugin"),
])
def test_what_a_task_throws_is_its_own_failure(rig, topic_name, mode, message):
    rig.create(topic_name, counting(topic_name, mode), ["RUNNING", "FAILED"])
    status = rig.call("GET", f"/connectors/{topic_name}/status")
    assert message in status["tasks"][0]["trace"]
    assert "heeler.tests.ModeSource$Counting.poll" in status["tasks"][0]["trace"]
    assert numbers(rig, topic_name) == list(range(5))  # what was polled before is kept


def test_a_bad_record_of_a_source_is_left_out_where_the_connector_says_so(rig, topic_name):
    strict = f"{topic_name}-strict"
    rig.create(topic_name, counting(topic_name, "mixed", **{"errors.tolerance": "all", "errors.log.enable": "true"}))
    rig.create(strict, counting(strict, "mixed"), ["RUNNING", "FAILED"])
    trace = rig.call("GET", f"/connectors/{strict}/status")["tasks"][0]["trace"]
    assert "ConnectException: Tolerance exceeded in error handler" in trace
    assert "Caused by: org.apache.kafka.connect.errors.DataException" in trace
    rig.wait_records(topic_name, 9)
    assert numbers(rig, topic_name) == [0, 1, 2, 4, 5, 6, 7, 8, 9]
    assert re.search(rf"Error encountered in task {topic_name}-0. Executing stage 'VALUE_CONVERTER' with class "
                     "'org.apache.kafka.connect.converters.LongConverter'", rig.process.log.read_text())


def test_a_connector_says_where_its_transactions_end(rig, topic_name):
    """Those of 0 to 4 and of 8 and 9 are committed, that of 5 to 7 is aborted; the offsets after it count (KIP-618)."""
    own = {"transaction.boundary": "connector"}
    rig.create(topic_name, counting(topic_name, "transactions", **own), ["RUNNING", "RUNNING"])
    rig.wait_records(topic_name, 7)
    assert numbers(rig, topic_name) == [0, 1, 2, 3, 4, 8, 9]
    wait_until(lambda: offsets(rig, topic_name) == [{"next": 9007199254740993 + 10}], what="the last offset")
    refused = rig.refused("POST", "/connectors", {"name": f"{topic_name}-no", "config": counting(topic_name, **own)})
    assert refused.status == 400
    assert "does not support connector-defined transaction boundaries" in str(refused)


def test_another_version_of_a_plugin_runs_beside_it(rig, topic_name):
    """KIP-891."""
    old = {"connector.plugin.version": "[6.0,7.0)"}
    shown = [p["version"] for p in rig.call("GET", "/connector-plugins") if p["class"] == MODE]
    assert shown == ["6.0", "7.1"]
    rig.create(topic_name, counting(topic_name, "throw", **old), ["RUNNING", "FAILED"])
    status = rig.call("GET", f"/connectors/{topic_name}/status")
    assert (status["connector"]["version"], status["tasks"][0]["version"]) == ("6.0", "6.0")
    assert "thrown by poll of 6.0" in status["tasks"][0]["trace"]
    refused = rig.refused("POST", "/connectors", {
        "name": f"{topic_name}-9", "config": counting(topic_name, **{"connector.plugin.version": "9.0"})})
    assert refused.status == 400
    assert f"{MODE} not found that matches the version range [9.0,9.0], available versions: [6.0, 7.1]" in str(refused)


def test_a_connector_that_raises_an_error_is_failed(rig, topic_name):
    rig.create(topic_name, counting(topic_name, "raise"))
    wait_until(lambda: rig.rest.states(topic_name)[:1] == ["FAILED"], what="the failure")
    assert "raised by the connector" in rig.call("GET", f"/connectors/{topic_name}/status")["connector"]["trace"]


@pytest.mark.parametrize("mode", ["hang", "hang-start", "hang-connector"])
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


def committed(rig, name):
    return rig.kafka.committed(f"connect-{name}")


def test_a_file_from_a_java_sink(rig, topic_name):
    """Transforms, pause, restart, altered offsets; the host is killed while records come, and none is missing."""
    out = rig.folder / "out"
    rig.kafka.create(topic_name, 2)
    config = {
        "connector.class": FILE_SINK, "file": str(out), "topics": topic_name, "transforms": "hoist",
        "transforms.hoist.type": "org.apache.kafka.connect.transforms.HoistField$Value", "transforms.hoist.field": "l",
    }
    rig.create(topic_name, config, ["RUNNING", "RUNNING"])
    rig.kafka.send(topic_name, ["one", "two"], partition=0, headers=[("h", b"1")])
    rig.wait_lines(out, ["Struct{l=one}", "Struct{l=two}"])
    wait_until(lambda: committed(rig, topic_name).get((topic_name, 0)) == 2, what="the offset of the second record")
    rig.call("PUT", f"/connectors/{topic_name}/pause")
    rig.wait_states(topic_name, ["PAUSED", "PAUSED"])
    rig.kafka.send(topic_name, ["three"], partition=0)
    rig.call("PUT", f"/connectors/{topic_name}/resume")
    rig.wait_lines(out, ["Struct{l=one}", "Struct{l=two}", "Struct{l=three}"])
    rig.call("POST", f"/connectors/{topic_name}/restart?includeTasks=true")
    rig.kafka.send(topic_name, ["four"], partition=0)
    rig.wait_lines(out, ["Struct{l=one}", "Struct{l=two}", "Struct{l=three}", "Struct{l=four}"])
    rig.call("PUT", f"/connectors/{topic_name}/stop")
    rig.wait_states(topic_name, ["STOPPED"])
    assert committed(rig, topic_name)[topic_name, 0] == 4
    place = {"kafka_topic": topic_name, "kafka_partition": 0}
    wanted = [{"partition": place, "offset": {"kafka_offset": 3}}]
    rig.call("PATCH", f"/connectors/{topic_name}/offsets", {"offsets": wanted})
    rig.call("PUT", f"/connectors/{topic_name}/resume")
    rig.wait_lines(out, ["Struct{l=one}", "Struct{l=two}", "Struct{l=three}", "Struct{l=four}", "Struct{l=four}"])
    lines = [f"{n}" for n in range(60_000)]
    rig.kafka.send(topic_name, lines[:30_000], partition=1)
    wait_until(lambda: len(out.read_text().splitlines()) > 1000, what="the first of many lines")
    first = jvm(rig)
    first.kill()
    rig.kafka.send(topic_name, lines[30_000:], partition=1)
    wait_until(lambda: committed(rig, topic_name).get((topic_name, 1)) == 60_000, SLOW_S, "the last offset")
    found = out.read_text().splitlines()
    assert {line[9:-1] for line in found if line.endswith("}")} >= set(lines)
    assert rig.call("GET", f"/connectors/{topic_name}/topics")[topic_name]["topics"] == [topic_name]
    rig.delete(topic_name)


def noting(rig, topic, **more):
    return {"connector.class": NOTES, "topics": topic, "notes": str(rig.folder / "notes"), **more}


def notes(rig, name="notes"):
    file = rig.folder / name
    return file.read_text().splitlines() if file.exists() else []


def wait_notes(rig, *wanted):
    wait_until(lambda: [n for n in wanted if n not in notes(rig)] == [], SLOW_S, f"{wanted}")


def test_what_a_sink_asks_of_its_context(rig, topic_name):
    """Rewind, hold and release of a partition, the same again after a time, a commit now, a report of a bad record;
    not more is committed than the task says.
    """
    letters = f"{topic_name}-dead"
    rig.kafka.create(topic_name, 2)
    rig.create(topic_name, noting(rig, topic_name, behind="1", **{
        "errors.tolerance": "all", "errors.deadletterqueue.topic.name": letters,
        "errors.deadletterqueue.topic.replication.factor": "1", "errors.deadletterqueue.context.headers.enable": "true",
        "transforms": "field", "transforms.field.type": "org.apache.kafka.connect.transforms.Cast$Value",
        "transforms.field.spec": "string", "transforms.field.predicate": "odd",
        "predicates": "odd", "predicates.odd.type": "org.apache.kafka.connect.transforms.predicates.HasHeaderKey",
        "predicates.odd.name": "odd"}), ["RUNNING", "RUNNING"])
    wait_notes(rig, "start true", "open [0, 1] true")
    say = lambda *words, to=0: rig.kafka.send(topic_name, words, partition=to)  # noqa: E731
    say("a", "rewind")
    wait_until(lambda: notes(rig)[2:] == ["put 0 0 a", "put 0 1 rewind"] * 2, what="the same after the rewind")
    say("b")
    say("again", "c")
    wait_notes(rig, "put 0 4 c")
    assert notes(rig).count("put 0 3 again") == 2
    assert notes(rig).index("put 0 4 c") > notes(rig).index("put 0 3 again") + 1
    say("hold 1")
    wait_notes(rig, "put 0 5 hold")
    say("held", to=1)
    say("d")
    wait_notes(rig, "put 0 6 d")
    assert "put 1 0 held" not in notes(rig)
    say("release 1")
    wait_notes(rig, "put 1 0 held")
    say("bad", "e")
    rig.wait_records(letters, 1)
    (letter,) = rig.kafka.messages(letters)
    found = {key: value.decode() for key, value in letter.headers()}
    say("group")
    wait_notes(rig, f"group connect-{topic_name} true 2")
    assert letter.value() == b"bad"
    assert found["__connect.errors.stage"] == "TASK_PUT"
    assert found["__connect.errors.offset"] == "8"
    assert found["__connect.errors.exception.message"] == "it is bad"
    wait_until(lambda: committed(rig, topic_name) == {(topic_name, 0): 10}, what="all but the last record committed")
    rig.call("PUT", f"/connectors/{topic_name}/stop")
    rig.wait_states(topic_name, ["STOPPED"])
    assert notes(rig)[-2:] == ["close [0, 1]", "stop"]
    place = {"kafka_topic": topic_name, "kafka_partition": 0}
    wanted = {"offsets": [{"partition": place, "offset": {"kafka_offset": 999}}]}
    error = rig.refused("PATCH", f"/connectors/{topic_name}/offsets", wanted)
    assert "999 is not an offset of mine" in str(error)
    answer = rig.call("DELETE", f"/connectors/{topic_name}/offsets")
    assert answer["message"] == "The offsets for this connector have been reset successfully"  # it says so itself
    assert committed(rig, topic_name) == {}


def test_partitions_move_between_tasks_of_a_sink(rig, topic_name):
    rig.kafka.create(topic_name, 2)
    rig.create(topic_name, noting(rig, topic_name), ["RUNNING", "RUNNING"])
    rig.kafka.send(topic_name, ["a"], partition=0)
    wait_notes(rig, "put 0 0 a")
    rig.create(topic_name, noting(rig, topic_name, **{"tasks.max": "2"}), ["RUNNING", "RUNNING", "RUNNING"])
    wait_notes(rig, "open [0] true", "open [1] true")
    rig.kafka.send(topic_name, ["b"], partition=0)
    rig.kafka.send(topic_name, ["c"], partition=1)
    wait_notes(rig, "put 0 1 b", "put 1 0 c")
    assert notes(rig).count("put 0 0 a") == 1


def test_a_sink_that_fails_and_one_that_hangs_hold_nobody_up(rig, topic_name):
    rig.kafka.create(topic_name)
    rig.kafka.send(topic_name, ["a", "throw"])
    rig.create(topic_name, noting(rig, topic_name), ["RUNNING", "FAILED"])
    trace = rig.call("GET", f"/connectors/{topic_name}/status")["tasks"][0]["trace"]
    assert "ConnectException: thrown by put" in trace
    hung, other = f"{topic_name}-hung", f"{topic_name}-other"
    rig.kafka.create(hung)
    rig.kafka.send(hung, ["hang"])
    rig.create(hung, noting(rig, hung, notes=str(rig.folder / "hung")))
    wait_until(lambda: "put 0 0 hang" in notes(rig, "hung"), what="the hung put")
    rig.create(other, counting(other), ["RUNNING", "RUNNING"])
    rig.delete(hung)
    rig.wait_records(other, 10)


def test_a_host_with_too_many_hung_threads_is_replaced_in_order(rig, topic_name):
    """Its tasks stop as they do at any end, and go on in the next one: no record is missing or doubled."""
    file, sunk, hung = rig.folder / "lines", f"{topic_name}-sink", f"{topic_name}-hung"
    file.write_text("one\n")
    rig.create(topic_name, {"connector.class": FILE_SOURCE, "file": str(file), "topic": topic_name,
                            "exactly.once.support": "required"}, ["RUNNING", "RUNNING"])
    rig.kafka.create(sunk)
    rig.kafka.send(sunk, ["a"])
    rig.create(sunk, noting(rig, sunk), ["RUNNING", "RUNNING"])
    wait_notes(rig, "put 0 0 a")
    wait_until(lambda: offsets(rig, topic_name) == [{"position": 4}], what="the first offset")
    first = jvm(rig)
    (rig.folder / "once").touch()
    rig.create(hung, counting(hung, "hang", once=str(rig.folder / "once"), **{"tasks.max": "10"}), ["RUNNING"] * 11)
    rig.wait_records(hung, 5)
    rig.delete(hung)
    wait_gone([first])
    with file.open("a") as out:
        out.write("two\n")
    rig.kafka.send(sunk, ["b"])
    wait_until(lambda: offsets(rig, topic_name) == [{"position": 8}], SLOW_S, "the second offset")
    wait_notes(rig, "put 0 1 b")
    assert notes(rig) == ["start true", "open [0] true", "put 0 0 a", "close [0]", "stop",
                          "start true", "open [0] true", "put 0 1 b"]
    assert [m.value().decode() for m in rig.kafka.messages(topic_name) if m.value()] == ["one", "two"]
    log = rig.process.log.read_text()
    assert "Too many threads hang in the host of Java plugins: its tasks go on in a new one" in log
    for name in (topic_name, sunk):
        rig.wait_states(name, ["RUNNING", "RUNNING"])
    assert jvm(rig).pid != first.pid


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
