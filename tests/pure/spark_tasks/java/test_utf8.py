"""Invalid UTF-8, as StringConverter of a Java worker (Java 17) reads it."""

from __future__ import annotations

import pytest

from spark_tasks.java.utf8 import decoded


@pytest.mark.parametrize(("text", "read"), [
    ("é\U0001f600".encode(), "é\U0001f600"), (b"a\xff\xfeb", "a??b"), (b"\xed\x9f\xbf\xee\x80\x80", "\ud7ff\ue000"),
    (b"\xed\xa0\x80", "?"), (b"\xed\xa0\xbd\xed\xb8\x80", "??"), (b"\xed\xa0A", "?A"), (b"\xed\xa0\xfe", "??"),
    (b"\xf0\xed\xa0", "??"), (b"\x80\xed\xbfA\x90", "??A?"), (b"\xc0\xed\xed\xbf", "???"), (b"\xed", "?"),
    (b"\xf0\x80\x80\x80", "????"), (b"\xc0\x80", "??"), (b"\xf0\x9f\x98", "?"), (b"\xf8\x88\x80\x80\x80", "?????"),
    (b"a\xe2\x82b", "a?b"),
])
def test_invalid_bytes_are_replaced_as_by_java(text, read):
    assert decoded(text) == read.replace("?", "\ufffd")
