"""Which records have a letter, in the metadata of a group's offset."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_tasks.dead_letters.exactly_once.letter_offsets import LetterOffsets, parsed
from spark_tasks.dead_letters.offset_runs import MAX_METADATA

OFFSETS = st.sets(st.integers(0, 60) | st.integers(0, 2**62), max_size=60)


@given(OFFSETS, OFFSETS, st.integers(-1, 61) | st.integers(0, 2**62))
def test_letters_are_a_set_of_offsets(some: set[int], others: set[int], since: int) -> None:
    letters = LetterOffsets().with_more(some).with_more(others)
    assert letters == LetterOffsets().with_more(some | others)
    for offset in {one + near for one in some | others | {since} for near in (-1, 0, 1)}:
        assert (offset in letters) is (offset in some | others)
        assert (offset in letters.since(since)) is (offset in some | others and offset >= since)
    assert all(end < first for (_, end), (first, _) in zip(letters.runs, letters.runs[1:], strict=False))


@given(OFFSETS)
def test_metadata_is_read_as_it_was_written(offsets: set[int]) -> None:
    letters = LetterOffsets().with_more(offsets)
    assert parsed(letters.metadata()) == letters


@pytest.mark.parametrize("text", [
    "", "heeler-letters:1", "heeler-letters-of:", "heeler-letters-of:!", "heeler-letters-of:日",
    "heeler-letters-of:abcde", LetterOffsets().metadata()[:-5],
])
def test_metadata_of_others_has_no_letters(text: str) -> None:
    assert parsed(text) is None


def test_many_letters_fit() -> None:
    scattered = random.Random(1).sample(range(10**9, 10**9 + 1_000_000), 1500)
    for offsets in (scattered, range(10**9, 10**9 + 1_000_000)):
        letters = LetterOffsets().with_more(offsets)
        assert len(letters.metadata()) <= 4096
        assert parsed(letters.metadata()) == letters


def test_of_too_many_the_first_ones_are_left_out() -> None:
    letters = LetterOffsets().with_more(random.Random(1).sample(range(10**9), 5000))
    assert len(letters.metadata()) <= 4096
    found = parsed(letters.metadata())
    assert found is not None
    assert len(found.runs) > 500
    assert found.runs == letters.runs[-len(found.runs) :]
    assert letters.metadata_within(MAX_METADATA) == (letters.metadata(), found)


@pytest.mark.parametrize("longest", [0, 100, 1000])
def test_as_many_fit_as_the_broker_allows(longest: int) -> None:
    letters = LetterOffsets().with_more(random.Random(1).sample(range(10**9), 5000))
    text, kept = letters.metadata_within(longest)
    more = LetterOffsets(letters.runs[-len(kept.runs) - 1 :])
    assert parsed(text) == kept
    assert len(text) <= longest or not kept.runs
    assert len(more.metadata()) > longest


def test_very_many_in_a_pattern_can_be_read_again() -> None:
    """Their metadata was short, but had more bytes than are decompressed, so all of them were forgotten."""
    letters = LetterOffsets().with_more(range(0, 1_200_000, 2))
    text, kept = letters.metadata_within(MAX_METADATA)
    assert parsed(text) == kept
    assert len(kept.runs) > 1500
    assert kept.runs == letters.runs[-len(kept.runs) :]
