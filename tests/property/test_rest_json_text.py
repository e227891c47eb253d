"""Reading JSON: values round-trip, numbers keep their text, and anything else raises a ValueError."""

from __future__ import annotations

import json
from types import NoneType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rest.errors import HttpError
from rest.json_text import dumps, loads, plain
from rest.wire.entities import CONFIG, parse

FINITE = st.floats(allow_nan=False, allow_infinity=False)
TEXT = st.text(st.characters(exclude_categories=("Cs",)))
VALUE = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), FINITE, TEXT),
    lambda inner: st.one_of(st.lists(inner), st.dictionaries(TEXT, inner)), max_leaves=20)
ENCODING = st.sampled_from(["utf-8", "utf-8-sig", "utf-16-le", "utf-16-be", "utf-32"])


@given(VALUE, st.booleans())
def test_json_values_round_trip(value: Any, escaped: bool) -> None:
    read = loads(json.dumps(value, ensure_ascii=escaped).encode())
    assert plain(read) == value
    assert plain(loads(dumps(plain(read)))) == value
    assert all(type(item) in {NoneType, bool, int, float, str} for item in _leaves(plain(read)))


@given(st.dictionaries(TEXT, VALUE, min_size=1, max_size=2), ENCODING)
def test_every_json_encoding_is_read(value: dict[str, Any], encoding: str) -> None:
    assert loads(json.dumps(value).encode(encoding)) == value


@given(st.from_regex(r"-?(0|[1-9][0-9]{0,30})(\.[0-9]{1,20})?([eE][+-]?[0-9]{1,3})?", fullmatch=True))
def test_numbers_in_a_config_keep_their_text(number: str) -> None:
    assert parse(f'{{"a": {number}}}'.encode(), CONFIG) == {"a": number}


@given(st.binary(max_size=60))
def test_any_bytes_are_read_or_refused(body: bytes) -> None:
    try:
        loads(body)
    except ValueError:
        return


@pytest.mark.parametrize(("body", "status"), [
    *((body, 400) for body in (b"[" * 100_000, b'{"a":' * 50_000, b'{"a":' * 101 + b"1" + b"}" * 101, b"1" * 2000,
                               b'"\\ud800"', b'["\\udfff\\ud800"]')),
    *((body, 500) for body in (b"NaN", b"-Infinity", b"\xff", b"{} {}", b'{"a":1,}', b"'a'", b'"\x01"')),  # as Java
])
def test_invalid_json_is_refused(body: bytes, status: int) -> None:
    with pytest.raises(ValueError, match=r".+"):
        loads(body)
    with pytest.raises(HttpError) as caught:
        parse(body, CONFIG)
    assert caught.value.status == status


def _leaves(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return [leaf for item in value.values() for leaf in _leaves(item)]
    if isinstance(value, list):
        return [leaf for item in value for leaf in _leaves(item)]
    return [value]
