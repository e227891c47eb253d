"""Records as lines of JSON: readable, of one line each, and harmless to a terminal."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heeler.cli.support.records_text import record_line

BYTES = st.none() | st.binary(max_size=40) | st.text(max_size=20).map(lambda text: text.encode("utf-8", "replace"))
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
)


def line(value=None, *, key=None, timestamp=5, headers=None):
    return record_line(2, {"offset": 7, "timestamp": timestamp, "key": key, "value": value, "headers": headers})


def test_the_format_of_a_record():
    headers = [{"key": "h", "value": b"\x00\xff"}, {"key": "none", "value": None}, {"key": "h", "value": b"again"}]
    assert line(b'{"a": 1,\n "b": "\xc3\xa9"}', key=b"k", timestamp=1_700_000_000_123, headers=headers) == (
        '{"partition":2,"offset":7,"timestamp":"2023-11-14T22:13:20.123Z","key":"k","value":{"a": 1, "b": "é"},'
        r'"headers":[["h","\u0000\\xff"],["none",null],["h","again"]]}'
    )


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "null"), (b"", '""'), (b"12345678901234567890123", "12345678901234567890123"), (b"plain", '"plain"'),
        (b"1.10", "1.10"), (b"NaN", '"NaN"'), (b"[" * 5000, json.dumps("[" * 5000)), (b"\xff\x00", r'"\\xff\u0000"'),
        (b"\x1b]0;title\x07\x1b[2J", r'"\u001b]0;title\u0007\u001b[2J"'), (b"a\r\nb", r'"a\r\nb"'),
        ("\u202eevil\u2028\x9b".encode(), r'"\u202eevil\u2028\u009b"'), (b'"\x7f"', r'"\u007f"'),
        (b'{"a":"\xe2\x80\xae"}', r'{"a":"\u202e"}'), (b"\xf3\xa0\x80\x81", r'"\udb40\udc01"'),
    ],
)  # fmt: skip
def test_values_are_printed_as_json(value, shown):
    assert line(value).partition('"value":')[2] == shown + "}"


@pytest.mark.parametrize(
    ("timestamp", "shown"),
    [(-1, "null"), (2**63 - 1, str(2**63 - 1)), (0, '"1970-01-01T00:00:00.000Z"')],
)
def test_timestamps_are_printed_in_iso_format_or_as_numbers(timestamp, shown):
    assert f'"timestamp":{shown},' in line(timestamp=timestamp)


@given(BYTES, BYTES, st.lists(st.tuples(st.text(max_size=5), BYTES), max_size=2), st.integers(-(2**63), 2**63 - 1))
def test_any_record_is_one_printable_line_of_json(key, value, headers, timestamp):
    pairs = [{"key": name, "value": content} for name, content in headers]
    text = line(value, key=key, timestamp=timestamp, headers=pairs)
    assert text.isprintable()
    found = json.loads(text)
    assert (found["partition"], found["offset"]) == (2, 7)


@given(JSON)
def test_json_is_printed_as_json(value):
    for indent in (None, 2):
        assert json.loads(line(json.dumps(value, indent=indent, ensure_ascii=False).encode()))["value"] == value
