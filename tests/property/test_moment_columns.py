"""Columns of times and of their texts equal what SimpleDateFormat produces value by value."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_tasks.java.simple_date_format import format_millis, parse_millis
from spark_tasks.pipeline.transforms.columns_or_rows import NotInColumnsError
from spark_tasks.pipeline.transforms.moment_columns import format_column
from spark_tasks.pipeline.transforms.moment_texts import parse_column

PATTERNS = [
    "yyyy-MM-dd'T'HH:mm:ss.SSSXXX", "yyyy-MM-dd'T'HH:mm:ss.SSS", "EEE, d MMM yyyy HH:mm:ss z", "h:mm a", "d/M/yyyy",
    "yyyyMMddHHmmssSSS", "EEEE d MMMM yyyy G", "k:m:s.S u D F", "yy-MM", "'o''clock' K a", "yyyyy MMM", "yyy H",
    "yyyy-MM-dd HH:mm:ss Z", "ä yyyy", "MMM d, yyyy h:mm:ss a", "yyyyMMdd'T'HHmmssX", "E M/d/yyyy", "hhmma", "dMMMyyyy",
    "yyyy-MM-dd HH:mm:ssX", "yyyyMMdd HHmmXX", "EEE HH:mm", "yyyy-MM-dd HH:mm a", "HHmm", "XXX yyyy", "ZX yyyy",
]  # fmt: skip
FIRST, LAST = -12_212_553_600_000, 253_402_300_799_999
MOMENTS = st.lists(st.none() | st.integers(FIRST, LAST) | st.integers(10**12, 2 * 10**12), max_size=20)
SIGNS = st.sampled_from([*"0123456789 -:+Zäxn", "", "+02:00", "-0330", "+05", "+05:30", "+24:00",
                         "-0199", "+1", "PST", "24", "pm", "tember", "\0"])  # fmt: skip


@given(st.sampled_from(PATTERNS), MOMENTS)
def test_columns_are_formatted_like_single_values(pattern: str, moments: list[int | None]) -> None:
    found = format_column(pa.array(moments, pa.int64()), pattern).to_pylist()
    assert found == [None if one is None else format_millis(pattern, one) for one in moments]


@given(st.sampled_from(PATTERNS), MOMENTS, st.integers(0, 30), SIGNS, st.booleans())
def test_columns_are_parsed_like_single_values(
    pattern: str, moments: list[int | None], place: int, sign: str, all_of_them: bool
) -> None:
    """Texts as they are formatted, and with a change in the first one or in all of them."""
    texts = [None if one is None else format_millis(pattern, one) for one in moments]
    changed = [one and (one[:place] + sign + one[place + 1 :] if all_of_them or not at else one)
               for at, one in enumerate(texts)]
    for column in (texts, changed, [one and one.upper() for one in texts]):
        try:
            found = parse_column(pa.array(["9", *column], pa.string())[1:], pattern).to_pylist()
        except (NotInColumnsError, pa.ArrowInvalid):
            continue  # row by row
        assert found == [None if one is None else parse_millis(pattern, one) for one in column]


ROWS = {*(p for p in PATTERNS if set("zGuDF") & set(p)), "yy-MM", "EEE HH:mm", "yyyy-MM-dd HH:mm a"}


@pytest.mark.parametrize("pattern", [p for p in PATTERNS if p not in ROWS])
def test_plain_patterns_are_parsed_in_columns(pattern: str) -> None:
    texts = [format_millis(pattern, n * 86_399_123_457) for n in range(50)]
    parse_column(pa.array(texts), pattern)


@pytest.mark.parametrize("pattern", ["w", "W", "Y"])
def test_week_patterns_are_not_supported_in_columns(pattern: str) -> None:
    with pytest.raises(NotInColumnsError):
        format_column(pa.array([0]), pattern)
    with pytest.raises(NotInColumnsError):
        parse_column(pa.array(["1"]), pattern)


@pytest.mark.parametrize("pattern", ["EEE HH:mm", "yyyy-MM-dd HH:mm a"])
def test_fields_that_depend_on_others_are_parsed_by_rows(pattern: str) -> None:
    with pytest.raises(NotInColumnsError):
        parse_column(pa.array([format_millis(pattern, 0)]), pattern)


@pytest.mark.parametrize(("pattern", "text"), [
    ("yyyy X", "2024 +05:30"), ("yyyy XX", "2024 +0530"), ("yyyy XXX", "2024 +05:30"), ("yyyy X", "2024 Z"),
    ("yyyy Z", "2024 -0800"),
])  # fmt: skip
def test_zones_are_parsed_in_columns_like_single_values(pattern: str, text: str) -> None:
    assert parse_column(pa.array([text]), pattern).to_pylist() == [parse_millis(pattern, text)]


@pytest.mark.parametrize(("pattern", "text"), [
    ("yyyy XXX", "2024 +0530"), ("yyyy XXX", "2024 +05"), ("yyyy XX", "2024 +05:30"), ("yyyy Z", "2024 Z"),
    ("yyyy Z", "2024 +05:30"), ("yyyy X", "2024 +24"), ("yyyy XX", "2024 +0560"),
])  # fmt: skip
def test_zones_of_another_form_do_not_match(pattern: str, text: str) -> None:
    with pytest.raises(pa.ArrowInvalid):
        parse_column(pa.array([text]), pattern)
    with pytest.raises(ValueError, match="Unparseable"):
        parse_millis(pattern, text)
