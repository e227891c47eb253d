"""JSON is read and written as by Kafka Connect's JsonConverter."""

from __future__ import annotations

import contextlib
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage.log.java_json import dumps, loads

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"b": 1, "a": None, "c": [True, False]}, '{"b":1,"a":null,"c":[true,false]}'),
        ('"\\/\b\f\n\r\t\x00\x1f\x7f', '"\\"\\\\/\\b\\f\\n\\r\\t\\u0000\\u001F\x7f"'),
        ("\\u00ab", '"\\\\u00ab"'),  # a backslash and letters, not an escape
        ("ключ \u2028 é", '"ключ \u2028 é"'),
        ("🐕 \ud83d", '"\\uD83D\\uDC15 \\uD83D"'),  # as Java's JsonConverter: surrogates are escaped
        (b"\x00\xff", '"AP8="'),
        ((1, 2), "[1,2]"),
        (float("nan"), '"NaN"'),
        (float("-inf"), '"-Infinity"'),
    ],
)
def test_values_are_written_as_by_jackson(value: object, text: str) -> None:
    assert dumps(value).decode() == text


# Taken from java.lang.Double.toString.
@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0.0"), (-0.0, "-0.0"), (1.0, "1.0"), (0.5, "0.5"), (123456.789, "123456.789"), (0.001, "0.001"),
        (9999999.0, "9999999.0"), (1e7, "1.0E7"), (1.5e10, "1.5E10"), (0.00099, "9.9E-4"), (1e-5, "1.0E-5"),
        (-2.5e-7, "-2.5E-7"), (1e300, "1.0E300"), (1.7976931348623157e308,
        "1.7976931348623157E308"), (0.1, "0.1"), (1 / 3, "0.3333333333333333"),
        (np.float64(0.5), "0.5"), (5e-324, "4.9E-324"),
    ],
)
def test_doubles_as_java_prints_them(value: float, text: str) -> None:
    assert dumps(value).decode() == text


@pytest.mark.parametrize("value", [object(), {1: 2}, {None: 1}, {1, 2}])
def test_values_that_json_cannot_represent_are_refused(value: object) -> None:
    with pytest.raises(TypeError, match="JSON"):
        dumps(value)


@given(JSON)
def test_any_json_parser_can_read_it(value: object) -> None:
    assert json.loads(dumps(value)) == value
    assert loads(dumps(value)) == value


@pytest.mark.parametrize("data", [b"{", b'{"a":}', b"nope", b"NaN", b"-Infinity", b"\xff\xfe\xfd", b'"\1"'])
def test_invalid_json_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011  (whatever its text)
        loads(data)


def test_json_nested_too_deeply_is_an_error() -> None:
    with pytest.raises(ValueError, match="deep"):
        loads(b"[" * 200_000)


def test_lenient_input_is_read_as_by_jackson() -> None:
    assert loads(b' {"a":1} and what follows') == {"a": 1}
    assert loads('{"a":1}'.encode("utf-16")) == {"a": 1}
    assert loads(b"\xef\xbb\xbf[1]") == [1]
    assert loads(b"") is None
    assert loads(b" \n") is None


@given(st.binary(max_size=40))
def test_any_bytes_give_a_value_or_a_value_error(data: bytes) -> None:
    with contextlib.suppress(ValueError):
        loads(data)


@pytest.mark.parametrize(("data", "value"), [  # recorded from Kafka Connect 4.3.1
    (b"01", 1), (b"-01", -1), (b"00", 0), (b'[007, -00.5, 1.0, "001", "\\"02"]', [7, -0.5, 1.0, "001", '"02']),
    (b"[-0.0]", [0.0]), (b"1e400", float("inf")), (b"1e-400", 0.0), (b"\xef\xbb\xbf ", None), (b"\xef\xbb\xbf{}", {}),
    (b'{"a":1,"a":2}', {"a": 2}), (b"{}\xff", {}), (b"{} x", {}), (b'"a"\xff', "a"), (b"1 x", 1), (b"null x", None),
    (b"null,", None), (b"true]", True), (b"null[", None), (b"null$", None), (b'"\xc0\x80"', "\0"),
    (b'{"\xc1\x81":"\xc0\xa2"}', {"A": '"'}), (b'"\xe0\x80\x80"', "\0"), (b'"\xf4\x90\x80\x80"', "\udc00\udc00"),
    ('{"a":1}'.encode("utf-16-be") + b"x", {"a": 1}),
])  # fmt: skip
def test_odd_json_that_java_accepts(data: bytes, value: object) -> None:
    assert repr(loads(data)) == repr(value)


@pytest.mark.parametrize("data", [  # recorded from Kafka Connect 4.3.1
    b"nullx", b"truex", b"null1", b"null_", b"null\xc3\xa9", b"null\xff", b"1x", b"1]", b"1,", b"1/", b"1\x0b", b'1"a"',
    b"1[", b"1\xff", b"1.", b"1.e1", b"1e", b"1e+", b"[1.]", b"1\x00\x002", b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff",
    b'"\xff"', b'"\x80"', b'"a\xc3"', b'"\xed\xa0\x80"', b'"\xc3', b'{"a":NaN}', b"[+1]", b"[.5]", b'"\0"', b'{"a":1,}',
    b"[1e9999999999]", b"[0e9999999999]", b"[1e-9999999999]", b"[0x10]", b"['a']", b"[1,]", b"[/**/1]",
])  # fmt: skip
def test_odd_json_that_java_refuses(data: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - the message is Python's
        loads(data)
