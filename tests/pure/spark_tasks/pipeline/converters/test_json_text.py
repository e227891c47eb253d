"""Texts that only few parsers read: what JsonConverter 4.3.1 makes of them."""

import pytest

from spark_tasks.errors import DataError
from spark_tasks.pipeline.converters.json_text import parse


@pytest.mark.parametrize(("data", "value"), [
    (b'{"a":1}\xff', {"a": 1}), (b'""\xfe', ""), (b"[1] \xbf[", [1]), (b"1 \xff", 1), (b"null \xff", None),
    ('{"a":"é"}'.encode("utf-16") + b"\0", {"a": "é"}), (b"[\0001\0]\0\0", [1]), (b"\0t\0r\0u\0e\0", True),
    ('"x"'.encode("utf-32") + b"\0", "x"), (b"\xef\xbb\xbf{}\xff", {}), (b"", None), (b" ", None),
])
def test_bytes_after_the_first_value_need_not_be_text(data, value):
    assert parse(data) == value


@pytest.mark.parametrize("data", [
    b"\xff\xfe", b"\xfe\xff", b"\xef\xbb\xbf", b"\xff", b"1\xff", b"null\xff",
    b'"\xff"', b'{"a":1\xff}', b'{"a\xff":1}',
    b'{"a":\xff', b" \xff",
])
def test_bytes_that_are_no_text_within_a_value_or_in_its_place_are_an_error(data):
    with pytest.raises(DataError, match="the JSON text is not valid"):
        parse(data)
