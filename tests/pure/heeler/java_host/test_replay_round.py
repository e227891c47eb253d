"""Records of dead letters in rounds for a Java sink."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heeler.java_host.feed import AHEAD
from heeler.java_host.replay_round import OwnOffsetsError, ReplayRound, rounds_of
from tests.rigs.java_sink_tasks import cut_batch, frame_meta

P, Q = ("t", 0), ("t", 1)


def frames(one: ReplayRound) -> list[tuple[int, int, int, int]]:
    """Partition, start, end and number of records of each frame; the host is done with each at once."""
    found = []
    while (frame := one.next()) is not None:
        found.append(frame_meta(frame))
        one.done()
    return found


@given(st.lists(st.tuples(st.sampled_from([P, Q]), st.lists(
    st.lists(st.integers(0, 30), min_size=1, max_size=6, unique=True).map(sorted), min_size=1, max_size=4))))
def test_each_record_is_in_one_frame_and_those_of_a_round_ascend(messages):
    rounds = list(rounds_of([(place, [cut_batch(*offsets) for offsets in lists]) for place, lists in messages]))
    expected = sum(len(offsets) for _, lists in messages for offsets in lists)
    count = 0
    for one in rounds:
        at = {place[1]: offset for place, offset in one.starts.items()}
        for partition, start, end, records in frames(one):
            assert start == at[partition], "nothing between two frames, for the host"
            assert 0 < records <= end - start
            at[partition] = end
            count += records
    assert count == expected


def test_a_round_is_stored_when_all_of_its_offsets_would_be_committed():
    (one,) = rounds_of([(P, [cut_batch(3, 7)]), (Q, [cut_batch(1)]), (P, [cut_batch(9)])])
    assert one.starts == {P: 3, Q: 1}
    assert (one.given, one.missing) == (False, [P, Q])
    assert frames(one) == [(0, 3, 8, 2), (0, 8, 10, 1), (1, 1, 2, 1)]
    assert one.given
    one.store(P, 10)
    one.store(Q, 1)
    assert one.missing == [Q]
    one.store(Q, 2)
    assert one.missing == []


def test_the_host_gets_only_some_frames_ahead():
    (one,) = rounds_of([(P, [cut_batch(n) for n in range(AHEAD + 1)])])
    assert [one.next() is None for _ in range(AHEAD + 1)] == [False] * AHEAD + [True]
    one.done()
    assert one.next() is not None


def test_records_come_again_after_a_pause_or_a_rewind():
    (one,) = rounds_of([(P, [cut_batch(1, 2), cut_batch(3)]), (Q, [cut_batch(1)])])
    assert len(frames(one)) == 3
    one.store(P, 4)
    one.move(P, -1)
    assert one.given
    one.move(P, 2)
    assert (one.given, one.missing) == (False, [P, Q])
    assert frames(one) == [(0, 1, 3, 2), (0, 3, 4, 1)], "the host leaves out what is before"


@pytest.mark.parametrize("offset", [0, 4])
def test_a_connector_that_goes_elsewhere_keeps_offsets_itself(offset):
    (one,) = rounds_of([(P, [cut_batch(1, 2)]), (Q, [cut_batch(3)])])
    one.next()
    with pytest.raises(OwnOffsetsError, match=f"wants to go to offset {offset} of t-0"):
        one.move(P, offset)
