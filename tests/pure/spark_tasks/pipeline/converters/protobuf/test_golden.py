"""Bytes that are a Protobuf message or not, beside Java's parser (tests/golden/protobuf/record.py)."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from tests.golden.protobuf.ours import difference

GOLDEN = Path(__file__).parents[5] / "golden" / "protobuf" / "golden.jsonl.gz"
CASES = [json.loads(line) for line in gzip.decompress(GOLDEN.read_bytes()).decode().split("\n")[:-1]]


@pytest.mark.parametrize("first", range(0, len(CASES), 100))
def test_bytes_are_the_message_that_java_reads(first):
    assert [told for told in map(difference, CASES[first:first + 100]) if told is not None] == []


def test_the_cases_are_varied():
    assert len(CASES) == 600
    assert 200 < sum("error" in one["java"] for one in CASES) < 400
