"""The lines that Java's file source reads (tests/golden/converters)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from spark_tasks.connectors.file_stream.source import FileReader

GOLDEN = json.loads((Path(__file__).parents[4] / "golden" / "converters" / "golden.json").read_text())


@pytest.mark.parametrize("case", GOLDEN["files"], ids=lambda case: repr(case["pieces"])[:60])
def test_file_stream_source_reads_the_same_lines_as_javas(case, tmp_path):
    file = tmp_path / "in.txt"
    reader, position = FileReader(str(file), "t"), None
    assert reader.latestOffset(reader.initialOffset()) == reader.initialOffset(), "a missing file is waited for"
    offset = reader.initialOffset()
    for piece, step in zip(case["pieces"], case["steps"], strict=True):
        with file.open("ab") as out:
            out.write(piece.encode("latin-1"))
        end = reader.latestOffset(offset)
        lines = [
            line
            for part in reader.partitions(offset, end)
            for b in reader.read(part)
            for line in b["value"].to_pylist()
        ]
        assert lines == step["lines"]
        position = end["position"] if lines else None
        assert position == step["position"]
        offset = end
