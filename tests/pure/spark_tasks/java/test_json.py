"""JSON as Jackson writes it; golden files hold the numbers and the order of keys beside Java's."""

from __future__ import annotations

from spark_tasks.java.json import java_json


def test_a_text_has_no_escapes_where_bytes_have_them():
    """As Jackson writes schemas: with a Writer. Unpaired surrogates, which UTF-8 does not have, are escaped in both."""
    value = {"\U0001f600": ["\U0001f600", "\ud800", "ä"]}
    assert java_json(value) == '{"\\uD83D\\uDE00":["\\uD83D\\uDE00","\\uD800","ä"]}'
    assert java_json(value, to_bytes=False) == '{"\U0001f600":["\U0001f600","\\uD800","ä"]}'
