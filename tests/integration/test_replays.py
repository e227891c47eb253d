"""Dead letter queues that are replayed, on a worker."""

from __future__ import annotations

import pytest

from tests.rigs.replays import done, ended, mend, path_of, tolerant
from tests.rigs.workers import JSON, STRING, Rig

pytestmark = pytest.mark.integration

TRANSFORMS = "org.apache.kafka.connect.transforms."
def test_a_queue_is_replayed_into_the_repaired_sink(rig: Rig, topic_name: str) -> None:
    """One value is an invalid number, the other is not JSON: Cast is repaired first, and the other value never becomes
    valid.
    """
    out, dead, name = rig.folder / "out.txt", f"{topic_name}-dead", f"{topic_name}-sink"
    values = ['{"n": 1}', '{"n": "two"}', "{", '{"n": 3}', '{"n": "four"}']
    rig.kafka.send(topic_name, values, list("abcde"), headers={"own": b"kept"})
    config = {
        "connector.class": "FileStreamSink", "file": str(out), "topics": topic_name, "value.converter": JSON,
        "value.converter.schemas.enable": "false", **tolerant(dead),
        "tasks.max": "2",  # one of them has no partition, perhaps that which replays
        "transforms": "cast,place", "transforms.cast.type": TRANSFORMS + "Cast$Value",
        "transforms.cast.spec": "n:int32",
        "transforms.place.type": TRANSFORMS + "InsertField$Value", "transforms.place.offset.field": "at",
    }
    rig.create(name, config, ["RUNNING"] * 3)
    rig.wait_lines(out, ["{n=1, at=0}", "{n=3, at=3}"])
    rig.wait_records(dead, 3)
    assert "No replay" in str(rig.refused("GET", path_of(name)))
    mend(rig, name, {**config, "transforms.cast.spec": "n:string"}, 2)

    dry = ended(rig, name, dry_run=True, values=True)
    assert (dry["scanned"], dry["would_replay"], dry["replayed"]) == (3, 3, 0)
    assert dry["by_stage"] == {"TRANSFORMATION": 2, "VALUE_CONVERTER": 1}
    assert dry["by_topic"] == {topic_name: 3}
    assert {(s["offset"], s["key"], s["value"]) for s in dry["samples"]} == {
        (1, "b", values[1]), (2, "c", values[2]), (4, "e", values[4])}

    cast = {"stages": ["TRANSFORMATION"]}
    assert done(rig, name, filter=cast, limit=1) == (1, 0, 0)
    rig.wait_lines(out, ["{n=1, at=0}", "{n=3, at=3}", "{n=two, at=1}"])
    assert done(rig, name, filter=cast) == (1, 0, 1), "the one that was replayed is not replayed again"
    assert done(rig, name, filter=cast) == (0, 0, 1)
    assert done(rig, name) == (1, 1, 0)
    rig.wait_lines(out, ["{n=1, at=0}", "{n=3, at=3}", "{n=two, at=1}", "{n=four, at=4}"])
    new = rig.kafka.messages(dead)[3:]
    [of] = [sample["queue_offset"] for sample in dry["samples"] if sample["key"] == "c"]
    assert [(m.key(), m.value(), dict(m.headers())["heeler.replay.of"]) for m in new] == [
        (b"c", b"{", f"{dead}-0-{of}".encode())]
    assert dict(new[0].headers())["own"] == b"kept"
    assert rig.kafka.end(topic_name) == 5, "nobody else sees what is replayed"
    rig.call("PUT", f"/connectors/{name}/pause")
    refused = rig.refused("POST", path_of(name), {})
    assert (refused.status, "paused" in str(refused)) == (400, True)


def test_a_replay_into_a_sink_that_stores_its_offsets_is_exactly_once(rig: Rig, topic_name: str) -> None:
    dead, name = f"{topic_name}-dead", f"{topic_name}-sink"
    rig.kafka.send(topic_name, ["{", "{}", "{", '{"n": 5}'])
    config = {
        "connector.class": "parquet", "path": str(rig.folder / "out"), "topics": topic_name, "value.converter": JSON,
        "value.converter.schemas.enable": "false", **tolerant(dead),
    }
    rig.create(name, config, ["RUNNING", "RUNNING"])
    rig.wait_records(dead, 2)
    mend(rig, name, {**config, "value.converter": STRING})
    refused = rig.refused("POST", path_of(name), {"filter": {"stages": ["TASK_PUT"]}})
    assert "have to be replayed in order" in str(refused)
    assert done(rig, name) == (2, 0, 0)
    assert [file.name for file in (rig.folder / "out").glob(f"{dead}*.parquet")] != []
    rig.call("PUT", f"/connectors/{name}/stop")
    place = {"kafka_topic": dead, "kafka_partition": 0}
    rig.call("PATCH", f"/connectors/{name}/offsets", {"offsets": [{"partition": place, "offset": None}]})
    rig.call("PUT", f"/connectors/{name}/resume")
    rig.wait_states(name, ["RUNNING", "RUNNING"])
    again = ended(rig, name)
    assert (again["replayed"], again["held_by_the_sink"]) == (0, 2), "whatever the group says, the sink has them"


def test_a_sources_queue_is_replayed_through_the_repaired_transforms(rig: Rig, topic_name: str) -> None:
    lines, dead, name = rig.folder / "in.txt", f"{topic_name}-dead", f"{topic_name}-source"
    lines.write_text("1\ntwo\n3\n")
    config = {
        "connector.class": "FileStreamSource", "file": str(lines), "topic": topic_name, **tolerant(dead),
        "value.converter": JSON,
        "value.converter.schemas.enable": "false", "transforms": "hoist,cast",
        "transforms.hoist.type": TRANSFORMS + "HoistField$Value", "transforms.hoist.field": "n",
        "transforms.cast.type": TRANSFORMS + "Cast$Value", "transforms.cast.spec": "n:int32",
    }
    rig.create(name, config, ["RUNNING", "RUNNING"])
    rig.wait_records(dead, 1)
    rig.wait_records(topic_name, 2)
    assert "No replay" in str(rig.refused("GET", path_of(name)))
    mend(rig, name, {**config, "transforms.cast.spec": "n:string"})
    state = ended(rig, name)
    assert (state["state"], state["replayed"], state["by_stage"]) == ("DONE", 1, {"TRANSFORMATION": 1})
    assert [m.value() for m in rig.kafka.messages(topic_name)] == [b'{"n":1}', b'{"n":3}', b'{"n":"two"}']

    place = {"heeler.dead.letters": dead, "partition": 0}
    shown = rig.call("GET", f"/connectors/{name}/offsets")["offsets"]
    assert {"partition": place, "offset": {"offset": 1}} in shown
    rig.call("PUT", f"/connectors/{name}/stop")
    refused = rig.refused("PATCH", f"/connectors/{name}/offsets",
                          {"offsets": [{"partition": place, "offset": {"offset": -1}}]})
    assert refused.status == 400
    rig.call("PATCH", f"/connectors/{name}/offsets", {"offsets": [{"partition": place, "offset": {"offset": 0}}]})
    rig.call("PUT", f"/connectors/{name}/resume")
    rig.wait_states(name, ["RUNNING", "RUNNING"])
    assert done(rig, name) == (1, 0, 0)
    assert len(rig.kafka.messages(topic_name)) == 4, "again, and the file was not read again"
