"""The sink in docs/writing-a-connector.md: the text there equals the file here, and a batch may be repeated."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pyarrow as pa

from spark_tasks.tasks.data_sources import data_source_of, writer_of
from tests.examples.records_db import RecordsSinkConnector

EXAMPLE = Path(__file__).with_name("records_db.py")
GUIDE = Path(__file__).parents[2] / "docs" / "writing-a-connector.md"


def test_the_guide_shows_this_file():
    assert f"```python\n{EXAMPLE.read_text()}```" in GUIDE.read_text()


def test_a_repeated_batch_writes_the_same_rows(tmp_path):
    file = str(tmp_path / "records.db")
    writer = writer_of(data_source_of(RecordsSinkConnector, {"path": file}))
    batch = pa.record_batch({
        "topic": pa.array(["t", "t"]).dictionary_encode(), "partition": [0, 0], "offset": [7, 8],
        "value": [{"n": 1}, None],
    })  # fmt: skip
    for _ in range(2):
        writer.commit([writer.write(iter([batch]))])
    with closing(sqlite3.connect(file)) as db:
        assert db.execute("SELECT * FROM records").fetchall() == [("t-0-7", '{"n": 1}'), ("t-0-8", "null")]
