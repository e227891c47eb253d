"""FileStreamSource's `batch.size`: batches have at most that many lines, and together all lines of the file."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.streaming.datasource import ReadMaxBytes

from spark_tasks.connectors.file_stream import line_ends
from spark_tasks.connectors.file_stream.connectors import FileStreamSourceConnector

CONTENT = st.lists(st.sampled_from([b"a", b"\n", b"\r", b"\r\n", "é".encode(), b"longer"]), max_size=40).map(b"".join)


def batches(file, limit, **options):
    """The lines of each batch up to the last complete line."""
    reader = FileStreamSourceConnector.data_source({"file": str(file), "topic": "t", **options}).streamReader(None)
    start, found = reader.initialOffset(), []
    while (end := reader.latestOffset(start, limit)) != start:
        (partition,) = reader.partitions(start, end)
        found.append([line for batch in reader.read(partition) for line in batch["value"].to_pylist()])
        start = end
    return found


@given(CONTENT, st.integers(-1, 7), st.none() | st.integers(1, 20), st.integers(1, 9))
def test_batches_have_at_most_batch_size_lines_and_lose_none(content, size, limit, block):
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(line_ends, "BLOCK_BYTES", block)  # what is read at a time ends anywhere, within a CR LF too
        file = Path(folder, "in")
        file.write_bytes(content)
        whole = [line for batch in batches(file, None) for line in batch]
        found = batches(file, limit and ReadMaxBytes(limit), **{"batch.size": str(size)})
    assert [line for batch in found for line in batch] == whole
    max_lines = max(1, size)  # Java's task too takes a line at least
    assert all(len(batch) <= max_lines for batch in found)
    if limit is None:
        assert all(len(batch) == max_lines for batch in found[:-1]), "as many as allowed"


def test_without_batch_size_a_batch_has_all_available_lines(tmp_path):
    file = tmp_path / "in"
    file.write_bytes(b"line\n" * 5000)
    assert [len(batch) for batch in batches(file, None)] == [5000]
    assert [len(batch) for batch in batches(file, None, **{"batch.size": "2000"})] == [2000, 2000, 1000]
