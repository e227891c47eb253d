from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_tasks.errors import ConfigError
from spark_tasks.plugins.versions import parse_requirement, sort_key

ORDERED = ["0.9", "1.0-alpha", "1.0-rc1", "1.0-rc2", "1.0", "1.0.1", "1.2", "1.10", "2", "10.0.1"]


def test_versions_are_ordered():
    assert sorted(set(ORDERED), key=sort_key) == ORDERED
    assert sort_key("1") == sort_key("1.0.0")


@pytest.mark.parametrize(("text", "inside", "outside", "shown"), [
    ("1.2", ["1.2", "1.2.0"], ["1.2.1", "1.1"], "[1.2,1.2]"), ("[1.2]", ["1.2"], ["1.3"], "[1.2,1.2]"),
    ("[1.0,2.0)", ["1.0", "1.9.9"], ["0.9", "2.0"], "[1.0,2.0)"), ("(1.0,]", ["1.0.1", "99"], ["1.0"], "(1.0,]"),
    ("(,2.0]", ["0.1", "2.0"], ["2.0.1"], "(,2.0]"), (" [ 1 , 2 ] ", ["1.5"], ["3"], "[1,2]"),
    ("[1,2) , [3,)", ["1", "3", "4"], ["0.9", "2", "2.5"], "[1,2),[3,)"),
])
def test_version_ranges_contain_their_versions(text, inside, outside, shown):
    wanted = parse_requirement(text)
    assert str(wanted) == shown
    assert all(v in wanted for v in inside)
    assert not any(v in wanted for v in outside)


@pytest.mark.parametrize("text", ["", "[1,2", "(1)", "[1,2,3]", "1,2", "[2,1]", "1)", "[1,2],",
                                  "[1,2][3,4]", "[1,3],[2,4]", "[3,4],[1,2]", "[1,),[2,3]"])
def test_invalid_ranges_are_refused(text):
    with pytest.raises(ConfigError, match="nvalid version"):
        parse_requirement(text)


@pytest.mark.parametrize("text", ["1" * 5000, f"[1.{'1' * 101},)", f"(,1-rc{'0' * 101}]"])
def test_numbers_of_absurd_length_are_refused(text):
    """Python raises ValueError for more than 4,300 digits."""
    with pytest.raises(ConfigError, match=r"^Invalid version '.{,20}\.\.\.': a number in it has more than 100 digits"):
        assert "1.0" in parse_requirement(text)


@given(st.text(max_size=10))
def test_any_text_is_a_range_or_an_error(text):
    with suppress(ConfigError):
        assert ("1.0" in parse_requirement(text)) in (True, False)
