"""Schemas, bytes and values beside those of Java's AvroData (tests/golden/avro/record.py)."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from tests.golden.avro.ours import difference, run

GOLDEN = Path(__file__).parents[5] / "golden" / "avro" / "golden.jsonl.gz"
CASES = [json.loads(line) for line in gzip.decompress(GOLDEN.read_bytes()).decode().split("\n")[:-1]]


@pytest.mark.parametrize("first", [
    pytest.param(first, marks=[pytest.mark.nightly] if first % 300 else []) for first in range(0, len(CASES), 100)])
def test_schemas_and_bytes_are_javas(first):
    assert [told for told in map(difference, CASES[first:first + 100]) if told is not None] == []


def test_the_cases_are_varied():
    assert sum("error" not in one["java"] for one in CASES) > 500
    assert {(one["enhanced"], one["meta"]) for one in CASES} == {(False, True), (True, True), (False, False)}


def value(schema, payload):
    text = json.dumps({"schema": {"type": "struct", "fields": [{"field": "x", **schema}]}, "payload": {"x": payload}})
    return run({"text": text, "enhanced": False, "meta": True})


def test_a_default_replaces_the_null_of_a_field_but_not_of_an_item():
    """Lists and maps were written with the default in place of null; Java writes null."""
    number = {"type": "int64", "optional": True, "default": 5}
    payload = lambda found: json.loads(found["back"])["payload"]["x"]  # noqa: E731
    assert payload(value(number, None)) == 5
    assert payload(value({"type": "array", "items": number}, [1, None])) == [1, None]
    assert payload(value({"type": "map", "keys": {"type": "string"}, "values": number}, {"a": None})) == {"a": None}
