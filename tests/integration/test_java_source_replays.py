"""Dead letters of Java sources, and their replays, on a worker."""

from __future__ import annotations

import pytest

from tests.rigs.java_connectors import FILE_SOURCE, SLOW_S, counting, offsets, wait_offset
from tests.rigs.replays import done, ended, headers_of, mend, tolerant
from tests.rigs.support import wait_until
from tests.rigs.workers import JSON, Rig, shared

pytestmark = pytest.mark.integration

CAST = "org.apache.kafka.connect.transforms.Cast$Value"
ERRORS = "__connect.errors."


@pytest.fixture
def rig(java_worker, tmp_path):
    with shared(java_worker, tmp_path) as own:
        yield own


def casting(rig: Rig, topic: str, kind: str, **more: str) -> dict[str, str]:
    """A source of the lines of a file, which it casts."""
    return {
        "connector.class": FILE_SOURCE, "file": str(rig.folder / "lines"), "topic": topic, "value.converter": JSON,
        "value.converter.schemas.enable": "false", "transforms": "cast", "transforms.cast.type": CAST,
        "transforms.cast.spec": kind, **more}


def test_bad_records_of_a_java_source_get_a_letter_each_and_the_others_arrive_in_order(rig, topic_name):
    """Java's transform and converter refuse some. Java's sources have no dead letter queue."""
    dead, name = f"{topic_name}-dead", f"{topic_name}-source"
    lines = ["0", "one", "2", "3", "four", "5"]
    (rig.folder / "lines").write_text("".join(f"{line}\n" for line in lines))
    config = casting(rig, topic_name, "int32", **tolerant(dead))
    rig.create(name, config, ["RUNNING", "RUNNING"])
    wait_offset(rig, name, {"position": 17})
    assert rig.kafka.values(topic_name) == ["0", "2", "3", "5"]
    letters = rig.kafka.messages(dead)
    assert [m.value() for m in letters] == [b'"one"', b'"four"'], "what the converter makes of the record as it was"
    for letter in letters:
        found = headers_of(letter)
        assert {key.removeprefix(ERRORS): value for key, value in found.items() if key.startswith(ERRORS)} == {
            "topic": topic_name, "connector.name": name, "task.id": "0", "stage": "TRANSFORMATION", "class.name": CAST,
            "exception.class.name": "org.apache.kafka.connect.errors.DataException",
            "exception.message": found[f"{ERRORS}exception.message"],
            "exception.stacktrace": found[f"{ERRORS}exception.stacktrace"]}
        assert "Cast" in found[f"{ERRORS}exception.stacktrace"]
    converter = f"{topic_name}-converter"
    rig.create(converter, casting(rig, converter, "string", **tolerant(dead), **{
        "value.converter": "heeler.tests.Measured$Capitals"}), ["RUNNING", "RUNNING"])
    wait_offset(rig, converter, {"position": 17})
    assert rig.kafka.values(converter) == ["0", "ONE", "3", "FOUR", "5"]
    (two,) = rig.kafka.messages(dead)[2:]
    assert (two.value(), headers_of(two)[f"{ERRORS}stage"], headers_of(two)[f"{ERRORS}class.name"]) == (
        b"2", "VALUE_CONVERTER", "heeler.tests.Measured$Capitals")
    strict = f"{topic_name}-strict"
    rig.create(strict, {**casting(rig, strict, "int32", **tolerant(dead)), "errors.tolerance": "none"},
               ["RUNNING", "FAILED"])
    assert rig.kafka.values(strict) == [], "with exactly-once delivery, a poll is written as a whole or not at all"
    wait_until(lambda: len(rig.kafka.messages(dead)) == 4, what="the letter of the record that fails the task")
    assert headers_of(rig.kafka.messages(dead)[3])[f"{ERRORS}connector.name"] == strict


@pytest.mark.parametrize("boundary", ["poll", "interval"])
def test_letters_of_a_java_source_go_through_the_repaired_chain_to_their_topics(rig, topic_name, boundary):
    """Dry run, filter and limit. One is refused again. The source's own records go on, and see nothing of it."""
    dead, name, file = f"{topic_name}-dead", f"{topic_name}-source", rig.folder / "lines"
    file.write_text("0\none\n2\n3.5\nfour\n")
    more = {"exactly.once.support": "required", "transaction.boundary": boundary,
            "transaction.boundary.interval.ms": "300"}
    rig.create(name, casting(rig, topic_name, "int32", **tolerant(dead), **more), ["RUNNING", "RUNNING"])
    wait_offset(rig, name, {"position": 17})
    assert rig.kafka.values(topic_name) == ["0", "2"]
    wait_until(lambda: len(rig.kafka.messages(dead)) == 3, what="the letters")
    mend(rig, name, casting(rig, topic_name, "float64", **tolerant(dead), **more))
    dry = ended(rig, name, dry_run=True, values=True)
    assert (dry["scanned"], dry["would_replay"], dry["replayed"], dry["not_replayable"]) == (3, 3, 0, 0)
    assert dry["by_stage"] == {"TRANSFORMATION": 3}
    assert [sample["value"] for sample in dry["samples"]] == ['"one"', '"3.5"', '"four"']
    assert done(rig, name, filter={"stages": ["VALUE_CONVERTER"]}) == (0, 0, 3)
    assert done(rig, name, limit=2) == (2, 1, 0)
    assert rig.kafka.values(topic_name) == ["0", "2", "3.5"]
    with file.open("a") as out:
        out.write("5\n")
    wait_until(lambda: len(rig.kafka.values(topic_name)) == 4, what="the source's own record")
    mend(rig, name, casting(rig, topic_name, "string", **tolerant(dead), **more))
    assert done(rig, name) == (2, 0, 0), "the one that was refused again, and the one that was left"
    assert rig.kafka.values(topic_name)[:3] == ["0", "2", "3.5"]
    assert sorted(map(str, rig.kafka.values(topic_name)[4:])) == ['"four"', '"one"']
    assert done(rig, name) == (0, 0, 0), "each once"
    (progress, own) = sorted(
        rig.call("GET", f"/connectors/{name}/offsets")["offsets"], key=lambda one: "filename" in one["partition"])
    assert progress["partition"] == {"heeler.dead.letters": dead, "partition": 0}
    assert own["offset"] == {"position": 19}
    with file.open("a") as out:
        out.write("six\n")
    wait_until(lambda: rig.kafka.values(topic_name)[6:] == ['"six"'], what="the next record of the source")


def test_letters_of_the_python_and_the_java_part_are_replayed_from_where_they_had_come(rig, topic_name):
    """A transform of Java, then one of Python and a converter of Python; each refuses one."""
    dead, name = f"{topic_name}-dead", f"{topic_name}-source"
    config = counting(topic_name, "gaps", **tolerant(dead), **{
        "transforms": "picky,double", "transforms.picky.type": "heeler.tests.Measured$Picky",
        "transforms.double.type": "crossing.double", "value.converter": "crossing.Numbered",
        "header.converter": "crossing.Shouted"})
    rig.create(name, config, ["RUNNING", "RUNNING"])
    wait_until(lambda: offsets(rig, name) == [{"next": 9007199254740993 + 10}], SLOW_S, "the last offset")
    stages = {m.key(): headers_of(m)[f"{ERRORS}class.name"] for m in rig.kafka.messages(dead)}
    as_json = b'{"schema":{"type":"string","optional":false},"payload":"k4"}'  # the host has no converters here
    assert stages == {b"k2": "crossing.double", as_json: "heeler.tests.Measured$Picky", b"k7": "crossing.Numbered"}
    before = {topic: rig.kafka.end(topic) for topic in (f"{topic_name}-j", f"{topic_name}-j-six")}
    mend(rig, name, {**config, "transforms.picky.type": "heeler.tests.Measured$Pass",
                     "transforms.double.type": "crossing.stamp", "value.converter": JSON,
                     "value.converter.schemas.enable": "false"})
    assert done(rig, name) == (3, 0, 0)
    replayed = {m.key(): (m.topic(), m.value(), m.timestamp()[1], [key for key, _ in m.headers()])
                for topic in (f"{topic_name}-x", f"{topic_name}-j-x") for m in rig.kafka.messages(topic)}
    assert replayed == {
        b"k2": (f"{topic_name}-j-x", b"2", 1002, ["confirmed", "java", "stamped"]),
        b"k4": (f"{topic_name}-x", b"4", 1004, ["confirmed", "stamped"]),
        b"k7": (f"{topic_name}-j-x", b"7", 1007, ["confirmed", "java", "stamped"])}
    assert {topic: rig.kafka.end(topic) for topic in before} == before
    assert done(rig, name) == (0, 0, 0)
