"""Texts of moments mean what they mean in Java 17, whose answers are in tests/golden/java/dates.tsv."""

from __future__ import annotations

from pathlib import Path

import pytest

from spark_tasks.java.simple_date_format import format_millis, parse_millis

GOLDEN = Path(__file__).parents[3] / "golden" / "java" / "dates.tsv"
ANSWERS = [line.split("\t") for line in GOLDEN.read_text(encoding="utf-8").split("\n")[:-1]]


def parsed(pattern: str, text: str) -> str:
    try:
        return str(parse_millis(pattern, text))
    except ValueError:
        return "error"


def test_texts_are_parsed_as_in_java() -> None:
    cases = [(answer, pattern, text) for answer, kind, pattern, text in ANSWERS if kind == "p"]
    assert len(cases) > 200
    assert [(parsed(pattern, text), pattern, text) for _, pattern, text in cases] == cases


def test_moments_are_formatted_as_in_java() -> None:
    cases = [(answer, pattern, millis) for answer, kind, pattern, millis in ANSWERS if kind == "f"]
    assert len(cases) > 100
    assert [(format_millis(pattern, int(millis)), pattern, millis) for _, pattern, millis in cases] == cases


@pytest.mark.parametrize(("pattern", "text"), [
    ("''yyyy''", "'1970'"), ("'o''clock' HH", "o'clock 00"), ("'''yy' yyyy", "'yy 1970"), ("yyyy''''", "1970''"),
])
def test_two_quotes_are_one_inside_and_outside_of_literal_text(pattern: str, text: str) -> None:
    assert (format_millis(pattern, 0), parse_millis(pattern, text)) == (text, 0)


@pytest.mark.parametrize(("pattern", "text"), [
    ("yyyy z", "1920 PST"), ("yyyy z", "2024 MSK"), ("yyyy z", "2024 PSTX"), ("YYYY", "1500"), ("YYYY G", "2024 BC"),
    ("yyyy YYYY", "2024 2024"), ("W", "2000000000"), ("z z", "PST UTC"),
])  # fmt: skip
def test_what_java_parses_in_another_way_is_refused(pattern: str, text: str) -> None:
    with pytest.raises(ValueError, match="Unparseable"):
        parse_millis(pattern, text)
