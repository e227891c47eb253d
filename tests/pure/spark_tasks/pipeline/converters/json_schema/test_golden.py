"""JSON Schemas beside those of Java (tests/golden/json_schema/record.py). A registry compares their texts."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from tests.golden.json_schema.ours import difference

GOLDEN = Path(__file__).parents[5] / "golden" / "json_schema" / "golden.jsonl.gz"
CASES = [json.loads(line) for line in gzip.decompress(GOLDEN.read_bytes()).decode().split("\n")[:-1]]


@pytest.mark.parametrize("first", range(0, len(CASES), 100))
def test_texts_of_schemas_are_javas(first):
    assert [told for told in map(difference, CASES[first:first + 100]) if told is not None] == []


def test_the_cases_are_varied():
    assert len(CASES) == 600
    assert all("text" in one["java"] for one in CASES)
    assert len({(one["numeric"], one["additional"], one["sums"]) for one in CASES}) == 8
