"""Dead letter queues of Java sinks that are replayed, on a worker."""

from __future__ import annotations

import pytest

from tests.rigs.java_connectors import FILE_SINK, PLAIN, committed, notes, noting
from tests.rigs.replays import done, ended, mend, path_of, tolerant
from tests.rigs.support import wait_until
from tests.rigs.workers import JSON, shared

pytestmark = pytest.mark.integration

TRANSFORMS = "org.apache.kafka.connect.transforms."


@pytest.fixture
def rig(java_worker, tmp_path):
    with shared(java_worker, tmp_path) as own:
        yield own


def test_letters_go_through_the_repaired_chain_into_a_java_file_sink(rig, topic_name):
    """One value is an invalid number, the other is not JSON: Cast is repaired first, the other value never is. The
    group's offsets of the records are not touched, and the sink's own records continue.
    """
    out, dead, name = rig.folder / "out", f"{topic_name}-dead", f"{topic_name}-sink"
    values = ['{"n": 1}', '{"n": "two"}', "{", '{"n": 3}', '{"n": "four"}']
    rig.kafka.send(topic_name, values, list("abcde"), headers={"own": b"kept"})
    config = {
        "connector.class": FILE_SINK, "file": str(out), "topics": topic_name, "value.converter": JSON,
        "value.converter.schemas.enable": "false", **tolerant(dead), "tasks.max": "2",  # one has no partition
        "transforms": "cast,take", "transforms.cast.type": TRANSFORMS + "Cast$Value",
        "transforms.cast.spec": "n:int32", "transforms.take.type": TRANSFORMS + "InsertField$Value",
        "transforms.take.offset.field": "at",
    }
    rig.create(name, config, ["RUNNING"] * 3)
    rig.wait_lines(out, ["{n=1, at=0}", "{n=3, at=3}"])
    rig.wait_records(dead, 3)
    wait_until(lambda: committed(rig, name).get((topic_name, 0)) == 5, what="the offset of the last record")
    assert "No replay" in str(rig.refused("GET", path_of(name)))
    mend(rig, name, {**config, "transforms.cast.spec": "n:string"}, 2)

    dry = ended(rig, name, dry_run=True, values=True)
    assert (dry["scanned"], dry["would_replay"], dry["replayed"]) == (3, 3, 0)
    assert dry["by_stage"] == {"TRANSFORMATION": 2, "VALUE_CONVERTER": 1}
    assert {(s["offset"], s["key"], s["value"]) for s in dry["samples"]} == {
        (1, "b", values[1]), (2, "c", values[2]), (4, "e", values[4])}
    cast = {"stages": ["TRANSFORMATION"]}
    assert done(rig, name, filter=cast, limit=1) == (1, 0, 0)
    rig.wait_lines(out, ["{n=1, at=0}", "{n=3, at=3}", "{n=two, at=1}"])
    assert done(rig, name, filter=cast) == (1, 0, 1), "the one that was replayed is not replayed again"
    assert done(rig, name) == (1, 1, 0)
    found = ["{n=1, at=0}", "{n=3, at=3}", "{n=two, at=1}", "{n=four, at=4}"]
    rig.wait_lines(out, found)
    (new,) = rig.kafka.messages(dead)[3:]
    headers = dict(new.headers())
    assert (new.key(), new.value(), headers["own"], headers["heeler.replay.of"]) == (
        b"c", b"{", b"kept", f"{dead}-0-1".encode())
    assert headers["__connect.errors.offset"] == b"2"
    assert committed(rig, name) == {(topic_name, 0): 5, (dead, 0): 3}
    assert rig.kafka.end(topic_name) == 5, "nobody else sees what is replayed"
    rig.kafka.send(topic_name, ['{"n": 6}'])
    rig.wait_lines(out, [*found, "{n=6, at=5}"])
    mend(rig, name, {**config, "transforms.cast.spec": "n:string"}, 2)
    assert done(rig, name) == (1, 1, 0), "only the new letter: the progress is in the group"
    rig.call("PUT", f"/connectors/{name}/stop")
    rig.wait_states(name, ["STOPPED"])
    place = {"kafka_topic": dead, "kafka_partition": 0}
    rig.call("PATCH", f"/connectors/{name}/offsets", {"offsets": [{"partition": place, "offset": {"kafka_offset": 1}}]})
    rig.call("PUT", f"/connectors/{name}/resume")
    rig.wait_states(name, ["RUNNING"] * 3)
    assert done(rig, name, filter={"last_offset": 1}) == (1, 1, 0)


def test_letters_of_python_and_java_parts_go_to_the_sink_as_the_records_were(rig, topic_name):
    """The Python converter and transform, and the task itself, refuse one each. The partitions belong to another task.
    The sink pauses a partition on the way, refuses the last one again, and confirms late.
    """
    dead, name = f"{topic_name}-dead", f"{topic_name}-sink"
    rig.kafka.create(topic_name, 2)
    config = {
        "connector.class": PLAIN, "topics": topic_name, "notes": str(rig.folder / "notes"), **tolerant(dead),
        "tasks.max": "2", "consumer.override.max.poll.records": "1", "key.converter": "crossing.Pair",
        "transforms": "own", "transforms.own.type": "crossing.stamp", "do.bad 1": "report", "do.worse 1": "report",
    }
    rig.create(name, config, ["RUNNING"] * 3)
    for partition in (0, 1):
        rig.kafka.send(topic_name, ["one", "wrong", "bad", "four", "worse"], partition=partition,
                       keys=["a:1", "b:2", "c:3", "d:x", "e:5"], headers=[("own", b"kept")])
    rig.wait_records(dead, 8)
    ends = {(topic_name, 0): 5, (topic_name, 1): 5}
    wait_until(lambda: committed(rig, name) == ends, what="all records to be committed")
    before = notes(rig)
    times = [[m.timestamp()[1] for m in rig.kafka.messages(topic_name) if m.partition() == p] for p in (0, 1)]
    mend(rig, name, {**config, "key.converter": "org.apache.kafka.connect.storage.StringConverter", "late": "3",
                     "transforms.own.type": "crossing.prefix", "do.py bad": "hold", "do.py worse": "report"}, 2)
    letters = rig.kafka.messages(dead)  # of a record that was read again while the tasks joined, there are several
    worse = sum(letter.value() == b"worse" for letter in letters)
    assert done(rig, name) == (len(letters), worse, 0)
    wait_until(lambda: notes(rig)[-1:] == ["stop"], what="the end of the task that has replayed")
    expected = ["stop"] * 2  # of the tasks before
    for letter in letters:
        headers = {key: value.decode() for key, value in letter.headers()}
        partition, offset = headers["__connect.errors.partition"], headers["__connect.errors.offset"]
        if letter.value() != b"worse":
            expected.append(
                f"{topic_name} {partition}@{offset} at {times[int(partition)][int(offset)]}: {letter.key().decode()} "
                f"py {letter.value().decode()} own=kept heeler.replay.of={dead}-0-{letter.offset()}")
    assert sorted(notes(rig)[len(before):-1]) == sorted(expected)
    assert committed(rig, name) == {**ends, (dead, 0): len(letters)}
    refused = [dict(m.headers()) for m in rig.kafka.messages(dead)[len(letters):]]
    assert [(h["__connect.errors.stage"], h["__connect.errors.offset"]) for h in refused] == [
        (b"TASK_PUT", b"4")] * worse


@pytest.mark.parametrize(("what", "why"), [("throw", "ConnectException: thrown by put"), ("seek", "keeps offsets")])
def test_a_task_that_fails_or_rewinds_in_a_replay_ends_only_the_replay(rig, topic_name, what, why):
    dead, name = f"{topic_name}-dead", f"{topic_name}-sink"
    rig.kafka.send(topic_name, ["zero", "bad", "two"], partition=0)
    config = {"connector.class": PLAIN, "topics": topic_name, "notes": str(rig.folder / "notes"), **tolerant(dead),
              "do.bad": "report"}
    rig.create(name, config, ["RUNNING", "RUNNING"])
    rig.wait_records(dead, 1)
    mend(rig, name, {**config, "do.bad": what})
    state = ended(rig, name)
    assert (state["state"], state["replayed"], why in state["error"]) == ("FAILED", 0, True), state["error"]
    rig.kafka.send(topic_name, ["three"], partition=0)
    wait_until(lambda: any(f"{topic_name} 0@3" in note for note in notes(rig)), what="the next record")
    rig.wait_states(name, ["RUNNING", "RUNNING"])
    wait_until(lambda: committed(rig, name) == {(topic_name, 0): 4}, what="the offset, and no progress")
    mend(rig, name, {**config, "do.bad": "note"})
    assert done(rig, name) == (1, 0, 0), "its letter is still there"


def test_a_sink_that_may_keep_offsets_itself_is_refused_unless_it_is_said_to_keep_none(rig, topic_name):
    dead, name = f"{topic_name}-dead", f"{topic_name}-sink"
    rig.kafka.send(topic_name, ["a", "bad"])
    rig.create(name, noting(rig, topic_name, **tolerant(dead)), ["RUNNING", "RUNNING"])
    rig.wait_records(dead, 1)
    refused = rig.refused("POST", path_of(name), {})
    assert (refused.status, "overrides open and preCommit" in str(refused)) == (400, True)
    assert ended(rig, name, dry_run=True)["would_replay"] == 1
    assert done(rig, name, keeps_no_offsets=True) == (1, 0, 0)
    assert notes(rig).count("put 0 1 bad") == 2
