"""The records of a source that are larger than a request are found before they are sent."""

from __future__ import annotations

import numpy as np
import pytest

from spark_tasks.kafka.records.encode import encode
from spark_tasks.kafka.records.errors import RecordTooLargeError
from spark_tasks.sources.split import cut_down, too_large
from tests.rigs.raw_records import raw_batch

LARGE, LIMIT = b"x" * 2000, 1000


@pytest.mark.parametrize("skipped", [0, 1, 4])
def test_records_are_too_large_because_of_their_key_value_or_headers(skipped):
    """Headers did not count, so that the record failed the task also with errors.tolerance=all."""
    raw = raw_batch(
        [b"v", LARGE, None, b"v", b"v", None, b"v"], keys=[LARGE, None, b"k", None, None, None, None],
        headers=[None, [], [("h", LARGE)], [("h", b"x"), ("null", None)], [(LARGE.decode(), None)], None,
                 [("a", LARGE[:300]), ("b", LARGE[:300]), ("c", LARGE[:500])]]).slice(skipped)  # fmt: skip
    refused = []
    for row in range(len(raw)):
        try:
            encode(raw, rows=np.array([row]), no_timestamp=0, max_batch_bytes=LIMIT)
        except RecordTooLargeError as error:
            refused.append((row, error.size))
    assert [row + skipped for row, _ in refused] == [row for row in (0, 1, 2, 4, 6) if row >= skipped]
    assert too_large(raw, LIMIT) == refused


@pytest.mark.parametrize(("key", "value", "headers", "left"), [
    (b"k", LARGE, [("h", b"x")], (b"k", None, [("h", b"x")])),
    (b"k", b"v", [("h", LARGE)], (b"k", None, None)),
    (b"k", LARGE, [(LARGE.decode(), None)], (b"k", None, None)),
    (LARGE, b"v", [("h", b"x")], (None, None, None)),
])
def test_a_record_that_is_too_large_fits_into_its_letter(key, value, headers, left):
    """The letter of one with large headers was lost."""
    cut = cut_down(raw_batch([value], keys=[key], headers=[headers]), LIMIT)
    assert too_large(cut, LIMIT // 2) == []
    (record,) = cut.select(["key", "value", "headers"]).to_pylist()
    found = record["headers"] and [(pair["key"], pair["value"]) for pair in record["headers"]]
    assert (record["key"], record["value"], found) == left
