"""decode(encode(x)) = x for every value and version; arbitrary bytes yield a value or a CodecError."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.assignment.codec import (
    CodecError,
    decode_assignment,
    decode_metadata,
    encode_assignment,
    encode_metadata,
)
from actors.assignment.protocol import Allocation, Assignment, AssignmentError, MemberMetadata, Protocol
from storage.ids import ConnectorTaskId

text = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
int64 = st.integers(-(2**63), 2**63 - 1)
task_ids = st.builds(ConnectorTaskId, text, st.integers(0, 2**31 - 1))
allocations = st.builds(lambda names, tasks: Allocation.of([*names, *tasks]), st.lists(text), st.lists(task_ids))
metadata = st.builds(MemberMetadata, text, int64, st.none() | allocations)
assignments = st.builds(
    Assignment,
    text,
    text,
    int64,
    allocations,
    allocations,
    st.integers(0, 2**31 - 1),
    st.sampled_from(AssignmentError),
)
cooperative = st.sampled_from([Protocol.COMPATIBLE, Protocol.SESSIONED])
valid = st.one_of(
    st.builds(encode_metadata, metadata, st.sampled_from(Protocol)),
    st.builds(encode_assignment, assignments, st.sampled_from(Protocol)),
)


@given(metadata, cooperative)
def test_metadata_round_trips(value, protocol):
    assert decode_metadata(encode_metadata(value, protocol)) == value


@given(metadata)
def test_eager_metadata_has_no_allocation(value):
    assert decode_metadata(encode_metadata(value, Protocol.EAGER)) == MemberMetadata(value.url, value.config_offset)


@given(assignments, cooperative)
def test_assignments_round_trip(value, protocol):
    assert decode_assignment(encode_assignment(value, protocol)) == value


@given(assignments)
def test_eager_assignment_has_no_revocation(value):
    expected = Assignment(
        value.leader, value.leader_url, value.config_offset, value.assigned, error=value.error
    )
    assert decode_assignment(encode_assignment(value, Protocol.EAGER)) == expected


@given(allocations, allocations)
def test_allocations_are_sets(one, other):
    assert one.plus(other) == Allocation.of(one.items | other.items)
    assert one.minus(other) == Allocation.of(one.items - other.items)
    assert bool(one) == bool(one.items)


@st.composite
def damaged(draw):
    """Valid bytes with some cut off, replaced or inserted."""
    data = bytearray(draw(valid))
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(data)))
        data[at : at + draw(st.integers(0, 4))] = draw(st.binary(max_size=6))
    return bytes(data)


@pytest.mark.parametrize("decode", [decode_metadata, decode_assignment])
@given(data=st.binary() | valid | damaged())
def test_arbitrary_bytes_raise_at_most_a_codec_error(decode, data):
    with contextlib.suppress(CodecError):
        decode(data)
