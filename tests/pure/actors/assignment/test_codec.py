"""Bytes that Kafka Connect 4.3.1 wrote (tests/golden/group), and invalid bytes."""

from pathlib import Path

import pytest

from actors.assignment.codec import (
    CodecError,
    decode_assignment,
    decode_metadata,
    encode_assignment,
    encode_metadata,
)
from actors.assignment.protocol import Allocation, Assignment, AssignmentError, MemberMetadata, Protocol
from storage.ids import ConnectorTaskId

GOLDEN = {
    name: bytes.fromhex(data)
    for name, data in (
        line.split() for line in (Path(__file__).parents[3] / "golden/group/golden.txt").read_text().splitlines()
    )
}
VERSIONS = {"v0": Protocol.EAGER, "v1": Protocol.COMPATIBLE, "v2": Protocol.SESSIONED}
URL = "http://wörker:8083/"
FULL = Allocation(("a", "b"), (ConnectorTaskId("a", 0), ConnectorTaskId("a", 1), ConnectorTaskId("c", 7)))
METADATA = {
    "metadata-v0": MemberMetadata(URL, 42),
    **{
        f"metadata-{v}-{name}": value
        for v in ("v1", "v2")
        for name, value in (
            ("owned", MemberMetadata(URL, 42, Allocation(("a",), (ConnectorTaskId("a", 0), ConnectorTaskId("b", 2))))),
            ("idle", MemberMetadata(URL, 42, Allocation())),
            ("new", MemberMetadata(URL, -1)),
        )
    },
}
REVOKED = Allocation(("d",), (ConnectorTaskId("d", 0), ConnectorTaskId("e", 3)))
ASSIGNMENTS = {
    "assignment-v0": Assignment("leader-1", "http://leader:8083/", 42, FULL),
    **{
        f"assignment-{v}{name}": value
        for v in ("v1", "v2")
        for name, value in (
            ("", Assignment("leader-1", "http://leader:8083/", 42, FULL, REVOKED, 300_000)),
            ("-failed", Assignment("leader-1", "http://leader:8083/", 9, error=AssignmentError.CONFIG_MISMATCH)),
        )
    },
}


def version(name: str) -> Protocol:
    return VERSIONS[name.split("-")[1]]


def test_every_golden_record_is_tested():
    assert GOLDEN.keys() == METADATA.keys() | ASSIGNMENTS.keys()


@pytest.mark.parametrize("name", METADATA)
def test_metadata_as_java_writes_it(name):
    assert encode_metadata(METADATA[name], version(name)) == GOLDEN[name]
    assert decode_metadata(GOLDEN[name]) == METADATA[name]


@pytest.mark.parametrize("name", ASSIGNMENTS)
def test_assignments_as_java_writes_them(name):
    assert encode_assignment(ASSIGNMENTS[name], version(name)) == GOLDEN[name]
    assert decode_assignment(GOLDEN[name]) == ASSIGNMENTS[name]


def test_missing_fields_at_the_end_have_defaults():
    data = GOLDEN["assignment-v2"]
    full = ASSIGNMENTS["assignment-v2"]
    short = Assignment(full.leader, full.leader_url, full.config_offset, full.assigned, full.revoked)
    assert decode_assignment(data[:-4]) == short
    head = 2 + 2 + 2 + len(full.leader) + 2 + len(full.leader_url) + 8
    assert decode_assignment(data[:head]) == Assignment(full.leader, full.leader_url, full.config_offset)
    url, offset = METADATA["metadata-v2-owned"].url, 42
    assert decode_metadata(GOLDEN["metadata-v2-owned"][: 2 + 2 + len(url.encode()) + 8]) == MemberMetadata(url, offset)


def test_null_arrays_are_empty():
    head = GOLDEN["assignment-v1-failed"][:-12]
    nulls = b"\xff\xff\xff\xff" * 2 + b"\0\0\0\5"
    decoded = decode_assignment(head + nulls)
    assert (decoded.assigned, decoded.revoked, decoded.delay_ms) == (Allocation(), Allocation(), 5)


def test_later_versions_may_add_fields():
    data = b"\0\x09" + GOLDEN["assignment-v2"][2:] + b"more"
    assert decode_assignment(data) == ASSIGNMENTS["assignment-v2"]


def test_an_unknown_error_is_a_failed_rebalance():
    data = GOLDEN["assignment-v2"]
    assert decode_assignment(data[:2] + b"\0\x07" + data[4:]).failed


@pytest.mark.parametrize("data", [
    b"", b"\0", b"\xff\xff", b"\0\2\0", GOLDEN["assignment-v2"][:-5], b"\0\1" + b"\x7f" * 40,
    b"\xff\xff" + GOLDEN["assignment-v2"][2:], GOLDEN["assignment-v2"].replace(b"leader-1", b"leader-\xff"),
])
def test_damaged_bytes_raise_a_codec_error(data):
    with pytest.raises(CodecError):
        decode_assignment(data)


def test_a_task_below_the_connectors_own_number_is_refused():
    data = GOLDEN["assignment-v0"].replace(b"\0\0\0\7", b"\xff\xff\xff\xf0")
    with pytest.raises(CodecError, match="no task"):
        decode_assignment(data)


def test_impossible_counts_are_refused_at_once():
    head = GOLDEN["assignment-v1-failed"][:-12]
    with pytest.raises(CodecError, match="2147483647"):
        decode_assignment(head + b"\x7f\xff\xff\xff")
    smallest = b"\0\0" + b"\0\0\0\0"  # of a connector: no name and no tasks
    assert decode_assignment(head + b"\0\0\0\2" + smallest * 2).assigned == Allocation()
    with pytest.raises(CodecError, match="invalid connector count 3"):
        decode_assignment(head + b"\0\0\0\3" + smallest * 2)


@pytest.mark.parametrize("url", ["x" * 32768, "\ud800"])
def test_text_that_cannot_be_encoded_is_refused(url):
    with pytest.raises(CodecError):
        encode_metadata(MemberMetadata(url, 1), Protocol.SESSIONED)
