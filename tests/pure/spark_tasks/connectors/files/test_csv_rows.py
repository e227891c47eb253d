import io
import os

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import csv

from spark_tasks.connectors.files import csv_rows
from spark_tasks.connectors.files.connector import FilesSourceConnector
from spark_tasks.connectors.files.settings import FilesSettings


def settings_of(**options):
    given = {"path": "/", "topic": "t", **{key.replace("_", "."): value for key, value in options.items()}}
    return FilesSettings.of(FilesSourceConnector.config_def.parse(given), given)


MULTILINE = settings_of(csv_multiline="true")
texts = st.lists(st.sampled_from(["a", ",", '"', '"', "\n", "\r", "\r\n"]), max_size=30).map("".join).map(str.encode)


def rows_of(text):
    """The rows with two fields, as Arrow reads them from one block."""
    parsing = csv.ParseOptions(newlines_in_values=True, invalid_row_handler=lambda _: "skip")
    reading = csv.ReadOptions(use_threads=False, column_names=["a", "b"])
    kinds = csv.ConvertOptions(column_types={"a": pa.string(), "b": pa.string()})
    try:
        return csv.read_csv(io.BytesIO(text), reading, parsing, kinds).to_pylist()
    except pa.ArrowInvalid:  # only empty lines
        return []


@given(texts, st.integers(1, 20))
def test_blocks_have_the_rows_that_arrow_finds(text, size):
    at, found = 0, []
    while at < len(text):
        end = at + csv_rows.end_of_rows(np.frombuffer(text, np.uint8)[at:], size, MULTILINE)
        assert end > at
        found += rows_of(text[at:end])
        at = end
    assert found == rows_of(text)


@given(texts, st.integers(1, 20))
def test_without_multiline_blocks_end_at_line_ends(text, size):
    at, found = 0, []
    while at < len(text):
        end = at + csv_rows.end_of_rows(np.frombuffer(text, np.uint8)[at:], size, settings_of())
        assert end > at
        assert end - at <= size + 1 or not csv_rows.complete_rows(text[at : at + size], settings_of())
        found += text[at:end].splitlines()
        at = end
    assert found == text.splitlines()


@given(texts, st.integers(1, 20), st.integers(1, 9))
def test_the_rows_of_a_file_are_found_in_parts_and_blocks_of_any_size(tmp_path_factory, text, share, block):
    file = tmp_path_factory.mktemp("files") / "a.csv"
    file.write_bytes(text)
    fd = os.open(file, os.O_RDONLY)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(csv_rows, "BLOCK_BYTES", block)
        at, found = 0, []
        while (end := csv_rows.complete_until(fd, at, min(at + share, len(text)), len(text), MULTILINE)) > at:
            found += rows_of(text[at:end])
            at = end
    os.close(fd)
    assert found == rows_of(csv_rows.complete_rows(text, MULTILINE))
    assert at in (len(csv_rows.complete_rows(text, MULTILINE)), len(text))
