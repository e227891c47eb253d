"""Words are found in short and long texts alike, and one that overlaps itself costs no more than another."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_tasks.config.occurrences import Occurrences


def of(words: Iterable[tuple[str, bool]]) -> Occurrences:
    made = Occurrences()
    for word, anywhere in words:
        made.add(word, anywhere=anywhere)
    return made


def covered(found: Iterable[tuple[int, int]]) -> set[int]:
    return {at for start, end in found for at in range(start, end)}


def expected(words: Iterable[tuple[str, bool]], text: str) -> set[int]:
    found: set[int] = set()
    for word, anywhere in words:
        for at in range(len(text)):
            end = at + len(word)
            if not text.startswith(word, at):
                continue
            escaped = text[max(0, at - 2):at] in (r"\n", r"\r", r"\t")
            before = at > 0 and word[0].isalnum() and text[at - 1].isalnum() and not escaped
            after = word[-1].isalnum() and text[end:end + 1].isalnum()
            if anywhere or not (before or after):
                found.update(range(at, end))
    return found


WORDS = st.lists(st.tuples(st.text("ab-n", min_size=1, max_size=9) | st.text("ab", min_size=62, max_size=70),
                           st.booleans()), max_size=6)


@given(WORDS, st.lists(st.text("ab-n\\\U0001f600", max_size=12) | st.integers(0, 5), max_size=40), st.integers(0, 9000))
def test_all_occurrences_are_found_and_nothing_else(words, parts, padding):
    text = "." * padding + "".join(
        part if isinstance(part, str) else words[part][0] if part < len(words) else "" for part in parts)
    assert covered(of(words).spans(text)) == expected(words, text)


@pytest.mark.parametrize("at", range(16_378, 16_390))
def test_words_across_the_pieces_of_a_long_text_are_found(at):
    text = "." * at + "some-word" + "." * 70_000
    assert list(of([("some-word", True)]).spans(text)) == [(at, at + 9)]


def test_words_that_are_added_after_a_search_are_found():
    text = "." * 10_000 + "first second third"
    words = of([("first", True)])
    assert len(list(words.spans(text))) == 1
    words.add("second", anywhere=False)
    words.add("hird", anywhere=False)
    assert len(list(words.spans(text))) == 2
    words.add("hird", anywhere=True)
    words.add("hird", anywhere=False)
    assert len(list(words.spans(text))) == 3


def test_a_word_that_overlaps_itself_at_each_character_is_found_in_few_steps():
    spans = list(of([("-" * 1000, True)]).spans("-" * 100_000))
    assert covered(spans) == set(range(100_000))
    assert len(spans) <= 100
