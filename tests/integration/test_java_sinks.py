"""Java sinks on a real worker: Kafka's own, and one that uses all of its context."""

from __future__ import annotations

import pytest

from tests.rigs.java_connectors import FILE_SINK, SLOW_S, committed, counting, jvm, notes, noting, wait_notes
from tests.rigs.support import wait_until
from tests.rigs.workers import shared

pytestmark = pytest.mark.integration


@pytest.fixture
def rig(java_worker, tmp_path):
    with shared(java_worker, tmp_path) as own:
        yield own


def test_a_java_file_sink_writes_every_record_though_its_host_is_killed(rig, topic_name):
    """Transforms, pause, restart, altered offsets; the host is killed while records arrive, and none is missing."""
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


def test_requests_of_a_java_sink_to_its_context_take_effect(rig, topic_name):
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
    expected = {(topic_name, 0): 10, (topic_name, 1): 0}
    wait_until(lambda: committed(rig, topic_name) == expected, what="all but the last records committed")
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


def test_a_sink_that_fails_and_one_that_hangs_block_no_others(rig, topic_name):
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


def test_python_plugins_run_before_a_java_sink(rig, topic_name):
    """A Python key converter, header converter and transform, then one of Java. Bad records of each part are letters as
    they are in Kafka; what Python leaves out is committed.
    """
    letters = f"{topic_name}-dead"
    rig.kafka.create(topic_name, 1)
    rig.create(topic_name, noting(rig, topic_name, whole="true", **{
        "key.converter": "crossing.Pair", "header.converter": "crossing.Shouted",
        "value.converter": "org.apache.kafka.connect.json.JsonConverter", "value.converter.schemas.enable": "false",
        "transforms": "stamp,pass", "transforms.stamp.type": "crossing.stamp", "transforms.stamp.predicate": "dead",
        "transforms.stamp.negate": "true", "transforms.pass.type": "heeler.tests.Measured$Pass",
        "predicates": "dead", "predicates.dead.type":
            "org.apache.kafka.connect.transforms.predicates.RecordIsTombstone",
        "errors.tolerance": "all", "errors.deadletterqueue.topic.name": letters,
        "errors.deadletterqueue.topic.replication.factor": "1",
        "errors.deadletterqueue.context.headers.enable": "true"}), ["RUNNING", "RUNNING"])
    values = [b'"one"', b"{no json", None, b'"wrong"', b'"bad"', b'"two"', b'"three"', b'{"n":1}', b'"drop"']
    keys = [b"a:1", b"b:2", b"c:3", b"d:4", b"e:5", b"f:six", None, b"g:", b"h:8"]
    for key, value in zip(keys, values, strict=True):
        rig.kafka.send(topic_name, [value], partition=0, keys=[key], headers=[("h", b"x")])
    wait_until(lambda: committed(rig, topic_name) == {(topic_name, 0): 9}, SLOW_S, "all committed")
    times = [m.timestamp()[1] for m in rig.kafka.messages(topic_name)]
    at = lambda n, topic: f"{topic} 0@{n} of {topic_name} at {times[n]}: "  # noqa: E731
    pair, other = "/STRUCT/acme.Pair", f"{topic_name}-x"
    assert [note for note in notes(rig) if note.startswith(topic_name)] == [
        at(0, other) + f"Struct{{name=a,n=1.0}}{pair} one 1 h=X/STRING stamped=YES/STRING",
        at(2, topic_name) + f"Struct{{name=c,n=3.0}}{pair} null h=X/STRING",
        at(4, other) + f"Struct{{name=e,n=5.0}}{pair} bad 1 h=X/STRING stamped=YES/STRING",
        at(6, other) + "null three 1 h=X/STRING stamped=YES/STRING",
        at(7, other) + f"Struct{{name=g,n=NaN}}{pair} {{n=1}} h=X/STRING stamped=YES/STRING",
    ]
    rig.wait_records(letters, 4)
    name = "__connect.errors."
    found = sorted((int(h[f"{name}offset"]), h[f"{name}stage"], h[f"{name}class.name"], m.key(), m.value(), h["h"])
                   for m in rig.kafka.messages(letters)
                   for h in [{key: value.decode() for key, value in m.headers()}])
    assert found == [
        (1, "VALUE_CONVERTER", "org.apache.kafka.connect.json.JsonConverter", b"b:2", b"{no json", "x"),
        (3, "TRANSFORMATION", "crossing.stamp", b"d:4", b'"wrong"', "x"),
        (4, "TASK_PUT", "org.apache.kafka.connect.sink.SinkTask", b"e:5", b'"bad"', "x"),
        (5, "KEY_CONVERTER", "crossing.Pair", b"f:six", b'"two"', "x"),
    ]
    strict = f"{topic_name}-strict"
    other = {"notes": str(rig.folder / "other"), "key.converter": "crossing.Pair"}
    rig.create(strict, noting(rig, topic_name, **other), ["RUNNING", "FAILED"])
    trace = rig.call("GET", f"/connectors/{strict}/status")["tasks"][0]["trace"]
    assert "Tolerance exceeded in error handler" in trace
    assert f"key of record {topic_name}-0, offset 5 cannot be read by Pair" in trace
