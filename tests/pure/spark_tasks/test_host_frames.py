"""The columns of the host's frames, packed as Columns.java does."""

from __future__ import annotations

import json
import socket
import struct

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_tasks.data.columns import RAW_SCHEMA
from spark_tasks.errors import ConnectError
from spark_tasks.host_frames import BATCH, HEAD, MESSAGE, batch, message, received_frame, records
from tests.rigs.host_frames import packed, padded

TEXTS = st.one_of(st.none(), st.binary(max_size=20))
RECORDS = st.lists(st.tuples(
    st.sampled_from(["a", "b"]), st.integers(-1, 5), st.integers(-1, 10**13), TEXTS, TEXTS,
    st.lists(st.tuples(st.text(max_size=3), TEXTS), max_size=3)), max_size=20)


@given(RECORDS)
def test_packed_records_can_be_unpacked(records):
    found = batch(7, packed(records, [["{}", '{"n":1}']], more=True))
    assert (found.number, found.offsets, found.more) == (7, (("{}", '{"n":1}'),), True)
    rows = found.raw.to_pydict()
    assert [found.topics[n] for n in found.topic] == [r[0] for r in records]
    assert found.partition.tolist() == [r[1] for r in records]
    assert (rows["timestamp"], rows["key"], rows["value"]) == tuple([r[n] for r in records] for n in (2, 3, 4))
    wanted = [[{"key": k, "value": v} for k, v in r[5]] for r in records]
    assert [row or [] for row in rows["headers"]] == wanted


@pytest.mark.parametrize("cut", [False, True])
def test_dead_letters_are_kept_apart_from_the_records_of_their_frame(cut):
    rows = [("t", 1, 5, b"k", b"one", []), ("", -1, 6, None, b"bad", [("h", b"x")]), ("u", 2, 7, None, b"two", [])]
    found = batch(1, packed(rows, letters=[1], schemas=[("k", None), (None, None), (None, "v")] if cut else None))
    assert found.raw.column("value").to_pylist() == [b"one", b"two"]
    assert [found.topics[n] for n in found.topic] == ["t", "u"]
    assert found.partition.tolist() == [1, 2]
    assert found.letters.to_pylist() == [
        {"offset": 6, "timestamp": 6, "key": None, "value": b"bad", "headers": [{"key": "h", "value": b"x"}]}]
    if cut:
        assert found.cut.raw.equals(found.raw)
        assert (found.cut.key_schema.tolist(), found.cut.value_schema.tolist()) == ([0, -1], [-1, 1])
    assert batch(1, packed(rows[:1])).letters is None
    for wrong in ([3], ["x"], [2**70], {"a": 1}):
        with pytest.raises(ConnectError):
            batch(1, packed(rows, letters=wrong))


def test_records_between_two_runtimes_keep_their_schemas():
    found = batch(1, packed([("t", -1, 5, b"1", None, []), ("t", 2, 5, None, b"2", [])], wanted=True, rows=[0, 3],
                            schemas=[("k", None), (None, "v")]))
    assert found.cut.schemas == ("k", "v")
    assert (found.cut.key_schema.tolist(), found.cut.value_schema.tolist()) == ([0, -1], [-1, 1])
    assert (found.meta["rows"], found.cut.partition.tolist()) == ([0, 3], [-1, 2])


@given(st.data())
def test_a_damaged_frame_is_only_an_error(data):
    whole = bytearray(packed([("a", 0, 1, b"key", b"value", [("h", b"x")]), ("b", 0, 1, None, b"", [])]))
    if data.draw(st.booleans()):
        whole = whole[: data.draw(st.integers(0, len(whole) - 1))]
    else:
        whole[data.draw(st.integers(0, len(whole) - 1))] ^= data.draw(st.integers(1, 255))
    try:
        found = batch(1, memoryview(bytes(whole)))
    except ConnectError:
        return
    assert isinstance(found.raw, pa.RecordBatch)
    found.raw.validate(full=True)


@pytest.mark.parametrize("ends", [(0, 2**30, 2, 3), (0, -1, 2, 3), (0, 3, 2, 3), (0, 1, 2, 2**30)])
def test_values_that_end_outside_their_column_are_an_error(ends):
    """Only the last end was checked, and the worker's memory was read from wherever the others point to."""
    frame = bytes(packed([("t", 0, 1, None, value, []) for value in (b"a", b"b", b"c")]))
    assert frame.count(struct.pack("<4i", 0, 1, 2, 3)) == 1
    with pytest.raises(ConnectError, match="invalid batch"):
        batch(1, memoryview(frame.replace(struct.pack("<4i", 0, 1, 2, 3), struct.pack("<4i", *ends))))


@pytest.mark.parametrize(
    "head", [(MESSAGE, 0, -1), (MESSAGE, 1, 2**40), (BATCH, 1, 2**31), (BATCH, 1, -(2**63)), (3, 0, 8)])
def test_a_head_that_no_host_sends_is_an_error(head):
    """Memory for as many bytes was reserved, or a frame of an unknown kind was read as a message."""
    mine, other = socket.socketpair()
    with mine, other:
        other.sendall(HEAD.pack(*head))
        with pytest.raises(ConnectError, match="no valid frame"):
            received_frame(mine)


def test_a_message_is_packed_as_a_frame():
    frame = message(3, {"op": "stop"})
    assert HEAD.unpack(frame[:16]) == (MESSAGE, 3, len(frame) - 16)
    assert json.loads(frame[16:]) == {"op": "stop"}
    assert BATCH != MESSAGE


def changed(records, schemas, section, place, value):
    """A frame with another int32 at this place of a section; None: without it and what follows in the section."""
    body = bytearray(packed(records, [["{}", '{"n":1}']], schemas=schemas))
    _, meta, count, _ = struct.unpack_from("<iiii", body)
    sizes = list(struct.unpack_from(f"<{count}q", body, 16))
    at = 16 + 8 * count + len(padded(bytes(meta))) + sum(len(padded(bytes(size))) for size in sizes[:section])
    if value is None:
        gone = len(padded(bytes(sizes[section]))) - len(padded(bytes(4 * place)))
        del body[at + 4 * place : at + 4 * place + gone]
        struct.pack_into("<q", body, 16 + 8 * section, 4 * place)
    else:
        struct.pack_into("<i", body, at + 4 * place, value)
    return memoryview(bytes(body))


TWO = [("a", 0, 1, None, b"x", []), ("b", 0, 1, None, b"y", [])]
SCHEMAS = [("k", "v"), (None, "w")]


@pytest.mark.parametrize("schemas", [None, SCHEMAS])
@pytest.mark.parametrize(("section", "place", "value", "sound"), [
    (0, 1, 0, True), (0, 1, 2, False), (0, 1, -1, False), (0, 0, 2**31 - 1, False), (0, 0, None, False),
    (1, 0, 5, True), (1, 0, None, False)])
def test_each_record_has_a_known_topic_and_a_partition(schemas, section, place, value, sound):
    """Otherwise records were dropped, or an error in the middle of a step said nothing about its cause."""
    body = changed(TWO, schemas, section, place, value)
    if sound:
        assert len(batch(1, body).topic) == 2
    else:
        with pytest.raises(ConnectError, match="the Java plugin host sent an invalid batch: ValueError"):
            batch(1, body)


@pytest.mark.parametrize("section", [16, 17])
@pytest.mark.parametrize(("place", "value", "sound"), [(1, -1, True), (1, -2, False), (0, 3, False), (1, None, False)])
def test_each_key_and_value_has_a_known_schema_or_none(section, place, value, sound):
    body = changed(TWO, SCHEMAS, section, place, value)
    if sound:
        assert batch(1, body).cut.schemas == ("k", "v", "w")
    else:
        with pytest.raises(ConnectError, match="the Java plugin host sent an invalid batch: ValueError"):
            batch(1, body)


@pytest.mark.parametrize("more", [
    {"topics": ["a", 5]}, {"topics": "ab"}, {"topics": None}, {"offsets": [["{}"]]}, {"offsets": [["{}", 5]]},
    {"offsets": 5}, {"signal": "stop"}, {"signal": ["commit"]}])
def test_what_a_frame_says_about_itself_has_the_right_types(more):
    with pytest.raises(ConnectError, match="the Java plugin host sent an invalid batch"):
        batch(1, packed(TWO, **{"offsets": [["{}", "{}"]], "schemas": SCHEMAS, **more}))


def test_an_invalid_batch_is_refused():
    with pytest.raises(ConnectError, match="sent an invalid batch"):
        batch(1, memoryview(b"short"))


SINK_RECORDS = st.lists(st.tuples(
    st.integers(0, 2**60), st.integers(-1, 10**13), TEXTS, TEXTS,
    st.one_of(st.none(), st.lists(st.tuples(st.text(max_size=3), TEXTS), max_size=3))), min_size=1, max_size=20)


@given(SINK_RECORDS, st.data())
def test_records_for_the_host_are_packed_in_the_same_columns(found, data):
    first = data.draw(st.integers(0, len(found) - 1))  # slices have offsets into their buffers
    rows = [{"offset": o, "timestamp": t, "key": k, "value": v,
             "headers": None if hs is None else [{"key": n, "value": c} for n, c in hs]} for o, t, k, v, hs in found]
    whole = pa.RecordBatch.from_pylist(rows, schema=RAW_SCHEMA)
    frame = records("t", 3, 5, 9, whole.slice(first), reset=True)
    assert HEAD.unpack(frame[:16]) == (BATCH, 0, len(frame) - 16)
    count, meta_bytes, _, _ = struct.unpack_from("<iiii", frame, 16)
    sizes = struct.unpack_from("<16q", frame, 32)
    reported = json.loads(frame[160 : 160 + meta_bytes])
    assert reported == {"topic": "t", "partition": 3, "from": 5, "to": 9, "reset": True}
    at, sections = 160 + len(padded(bytes(meta_bytes))), []
    for size in sizes:
        sections.append(frame[at : at + size])
        at += len(padded(bytes(size)))
    assert at == len(frame)
    assert list(struct.unpack(f"<{count}q", sections[0])) == [row["offset"] for row in rows[first:]]
    assert list(struct.unpack(f"<{count}q", sections[2])) == [row["timestamp"] for row in rows[first:]]

    def strings_of(section):
        ends = struct.unpack(f"<{len(sections[section]) // 4}i", sections[section])
        valid = sections[section + 2]
        return [sections[section + 1][ends[n] : ends[n + 1]] if not valid or valid[n >> 3] & 1 << (n & 7) else None
                for n in range(len(ends) - 1)]

    assert strings_of(3) == [row["key"] for row in rows[first:]]
    assert strings_of(6) == [row["value"] for row in rows[first:]]
    wanted = [row["headers"] or [] for row in rows[first:]]
    if any(wanted):
        ends = struct.unpack(f"<{count + 1}i", sections[9])
        pairs = list(zip(strings_of(10), strings_of(13), strict=True))
        rows = [pairs[ends[r] : ends[r + 1]] for r in range(count)]
        assert [[{"key": n.decode(), "value": c} for n, c in row] for row in rows] == wanted
    else:
        assert sections[9:] == [b""] * 7
