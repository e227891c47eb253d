"""StringConverter's encodings."""

import pyarrow as pa
import pytest

from spark_tasks.errors import ConfigError
from spark_tasks.pipeline.converters.string import StringConverter


def converter(encoding):
    found = StringConverter()
    found.configure({"converter.encoding": encoding})
    return found


@pytest.mark.parametrize("name", ["hex", "rot13", "zlib", "base64", "idna", "punycode", "undefined", "a\0b", "none"])
def test_codecs_that_are_not_for_texts_are_refused(name):
    """All records used to be bad records."""
    with pytest.raises(ConfigError, match=r"for configuration converter\.encoding"):
        converter(name)


def test_utf_32_is_javas():
    """Big-endian, without a byte order mark unless the bytes have one."""
    utf32 = converter("UTF-32")
    written = utf32.from_connect("t", pa.array(["a\U0001f600"]))
    assert written.to_pylist() == [b"\0\0\0a\0\1\xf6\0"]
    marked = pa.array([written[0].as_py(), b"\xff\xfe\0\0a\0\0\0", b"\0\0\xfe\xff\0\0\0a"])
    assert utf32.to_connect("t", marked)[0].to_pylist() == ["a\U0001f600", "a", "a"]


def test_invalid_utf_8_is_read_as_by_java():
    """The surrogates of CESU-8 became six characters."""
    utf8 = converter("UTF-8")
    texts, _ = utf8.to_connect("t", pa.array([b"a\xed\xa0\xbd\xed\xb8\x80", None]))
    assert texts.to_pylist() == ["a\ufffd\ufffd", None]
    assert utf8.to_connect_header("t", "h", b"\xed\xa0\x80")[1] == "\ufffd"
