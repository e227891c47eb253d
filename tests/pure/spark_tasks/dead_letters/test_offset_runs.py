"""Runs of offsets in the metadata of a group's offset."""

from __future__ import annotations

import zlib
from itertools import accumulate, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_tasks.dead_letters.offset_runs import Run, merged, packed, unpacked

GAPS = st.lists(st.integers(1, 2**40), max_size=41)


def runs_of(start: int, distances: list[int]) -> list[Run]:
    return list(pairwise(accumulate(distances, initial=start)))[1::2]


@given(st.integers(0, 2**40), GAPS)
def test_what_is_packed_is_unpacked(start: int, distances: list[int]) -> None:
    runs = runs_of(start, distances)
    assert unpacked(packed(runs, start), start) == runs


def test_the_form_is_that_of_metadata_that_is_stored_already() -> None:
    """Gap and length of each run, seven bits in a byte."""
    assert zlib.decompress(packed([(205, 206), (300, 20_000)], 5)) == b"\xc8\x01\x01" b"\x5e\xf4\x99\x01"
    assert unpacked(packed([])) == []


@pytest.mark.parametrize("data", [
    b"", b"nothing", packed([(1, 2)])[:-1], zlib.compress(b"\xff" * 10 + b"\x01\x01"),
    zlib.compress(bytes(1 << 21)), packed([(2**62, 2**63)]),
], ids=["empty", "other", "cut", "a long number", "much", "a large offset"])
def test_other_data_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"incomplete|bits|Error -3"):
        unpacked(data)


def test_runs_that_touch_or_overlap_are_merged() -> None:
    assert list(merged([(1, 3), (3, 4), (5, 9), (6, 7), (8, 12), (20, 21)])) == [(1, 4), (5, 12), (20, 21)]
    assert list(merged([])) == []
