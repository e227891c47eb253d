"""How the rows and columns of CSV files, lines of JSON and Parquet files are found."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql.streaming.datasource import ReadMaxBytes

from spark_tasks.connectors.file_stream import line_ends
from spark_tasks.connectors.files import formats
from spark_tasks.connectors.files.connector import FilesSourceConnector
from spark_tasks.errors import ConnectError, DataError
from spark_tasks.pipeline.converters.python_values import to_python
from tests.rigs.files_source import all_rows, reader_of, rows_of


def test_csv_multiline_supports_quoted_line_ends(tmp_path):
    (tmp_path / "a.csv").write_text('id,t\n1,"a\nb"\n2,"c\n')
    reader = reader_of(tmp_path, csv_multiline="true")
    assert all_rows(reader) == [{"id": 1, "t": "a\nb"}]


def test_a_quote_inside_of_a_field_is_a_character(tmp_path):
    """It inverted what is quoted in the rest of the file, so that values were cut."""
    rows = ['1,6" pipe', '2,"a\nb"', '3,"say ""no"""', "4,c"]
    (tmp_path / "a.csv").write_text("id,name\n" + "".join(f"{row}\n" for row in rows))
    (tmp_path / "b.json").write_text('{"id": 5, "name": "\\""}\n{"id": 6, "name": "d"}\n')
    for limit in range(10, 55):
        reader = reader_of(tmp_path, csv_multiline="true")
        position, found = reader.initialOffset(), []
        while (end := reader.latestOffset(position, ReadMaxBytes(limit))) != position:
            found += [(int(row["id"]), row["name"]) for row in rows_of(reader, position, end)]
            position = end
        assert sorted(found) == [(1, '6" pipe'), (2, "a\nb"), (3, 'say "no"'), (4, "c"), (5, '"'), (6, "d")]


@pytest.mark.parametrize("text", ['1,"x\n2,y\n3,z\n', '1,"a\nb"\n2,c\n', '1,"a\rb"\n', '1,"\n'])
def test_a_line_end_in_quotes_without_multiline_is_an_error_that_says_where(tmp_path, text):
    """All rows up to the end of the batch became one value."""
    (tmp_path / "a.csv").write_text(f'id,name\n0,"a"""\n1,6" b\n{text}', newline="")
    at = (tmp_path / "a.csv").read_bytes().index(b'1,"') + len(text.splitlines()[0])
    with pytest.raises(DataError, match=rf"a quoted field of .*/a\.csv contains a line end at byte {at}: set csv.mul"):
        all_rows(reader_of(tmp_path, schema="id INT, name STRING"))


@pytest.mark.parametrize("size", [10, 17, 18, 1000, 100_000])
@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
def test_rows_of_csv_may_be_longer_than_a_block(tmp_path, monkeypatch, size, line_end):
    """Such a row failed the task. If a block ended inside of a CR LF in a field, the LF was lost."""
    monkeypatch.setattr(formats, "BLOCK_BYTES", size)
    texts = ["short", "x" * 5000, f"a,{line_end}b" * 1000, "", f"{line_end}{line_end}", "y,z"]
    (tmp_path / "a.csv").write_bytes("".join(f'{n},"{text}"{line_end}' for n, text in enumerate(texts)).encode())
    reader = reader_of(tmp_path, csv_multiline="true", csv_header="false", schema="n int, text string")
    assert all_rows(reader) == [{"n": n, "text": text} for n, text in enumerate(texts)]
    (tmp_path / "a.csv").write_bytes(line_end.join(["1,a", "2," + "b" * 5000, "", "3,", "4,c"]).encode() + b"\n")
    reader = reader_of(tmp_path, csv_header="false", schema="n int, text string")
    assert [row["n"] for row in all_rows(reader)] == [1, 2, 3, 4]


@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
def test_the_header_is_the_first_line_that_is_not_empty(tmp_path, line_end):
    file, reader = tmp_path / "a.csv", reader_of(tmp_path, schema="id int, name string")
    ends, found = [reader.initialOffset()], []
    for lines in (["", ""], ["", "id,name"], ["1,a", "", "2,b"], ["3,c"]):  # as the file grows
        with file.open("a", newline="") as appended:
            appended.write("".join(line + line_end for line in lines))
        ends.append(reader.latestOffset(ends[-1]))
        found.append([row["id"] for row in rows_of(reader, *ends[-2:])])
    assert found == [[], [], [1, 2], [3]]
    assert [row["name"] for row in rows_of(reader, ends[0], ends[-1])] == ["a", "b", "c"]
    assert [row["id"] for row in all_rows(reader_of(tmp_path))] == [1, 2, 3], "without a schema, too"


@pytest.mark.parametrize("schema", [None, "id INT"])
def test_a_header_that_is_not_utf8_is_an_error_that_names_the_file(tmp_path, schema):
    options = {"schema": schema} if schema else {}
    for encoding in ("latin-1", "utf-16"):
        (tmp_path / "a.csv").write_bytes("id,caf\xe9\n1,x\n".encode(encoding))
        with pytest.raises(DataError, match=r"^the header of file .*/a\.csv is not UTF-8$"):
            all_rows(reader_of(tmp_path, **options))
    (tmp_path / "a.csv").write_text('"id,name\n1,x\n')
    with pytest.raises(DataError, match=r"file .*/a\.csv"):
        all_rows(reader_of(tmp_path, **options))


def test_a_header_may_have_a_line_end_in_quotes(tmp_path):
    (tmp_path / "a.csv").write_text('\n"id","na\nme"\n1,x\n')
    assert all_rows(reader_of(tmp_path, csv_multiline="true")) == [{"id": 1, "na\nme": "x"}]


def test_columns_are_inferred_from_the_first_file_that_has_any(tmp_path):
    (tmp_path / "a.csv").write_text("\n\r\n\n")
    reader = reader_of(tmp_path)
    start = reader.initialOffset()
    end = reader.latestOffset(start)
    assert rows_of(reader, start, end) == []
    (tmp_path / "b.csv").write_text("id\n1\n")
    assert rows_of(reader, end, reader.latestOffset(end)) == [{"id": 1}]
    assert all_rows(reader_of(tmp_path)) == [{"id": 1}]


@pytest.mark.parametrize("left_out", ["_temporary", ".snapshot"])
def test_columns_are_inferred_only_from_files_that_are_read(tmp_path, left_out):
    """All values became null."""
    (tmp_path / left_out).mkdir()
    (tmp_path / left_out / "x.csv").write_text("foo,bar\n1,2\n")
    os.mkfifo(tmp_path / "a.csv")
    (tmp_path / "b.csv").write_text("id,name\n1,x\n")
    assert all_rows(reader_of(tmp_path, recursive="true")) == [{"id": 1, "name": "x"}]


@pytest.mark.parametrize("schema", [None, "id INT, name STRING"])
def test_a_file_without_any_of_the_columns_is_an_error_that_names_it(tmp_path, schema):
    (tmp_path / "a.csv").write_text("name,id\nx,1\n")
    options = {"schema": schema} if schema else {}
    (tmp_path / "b.csv").write_text("id\n2\n")
    assert [row["id"] for row in all_rows(reader_of(tmp_path, **options))] == [1, 2]
    (tmp_path / "c.csv").write_text("foo,bar\n1,2\n")
    with pytest.raises(DataError, match=r"^file .*/c\.csv has the columns foo, bar, but none of (id, name|name, id): "):
        all_rows(reader_of(tmp_path, **options))


@pytest.mark.parametrize("empty", ["foo,bar\n", "foo,bar", "id,id\n\n", "\nfoo\r\n\r\n"])
@pytest.mark.parametrize("name", ["a.csv", "z.csv"])
def test_a_file_with_another_header_but_no_rows_is_no_error(tmp_path, name, empty):
    """It failed the task for all files."""
    (tmp_path / name).write_text(empty)
    (tmp_path / "b.csv").write_text("id\n1\n")
    assert all_rows(reader_of(tmp_path)) == [{"id": 1}]


def test_a_folder_that_cannot_be_searched_does_not_prevent_the_inference(tmp_path, monkeypatch):
    (tmp_path / "closed").mkdir()
    (tmp_path / "closed" / "a.csv").write_text("x\n1\n")
    (tmp_path / "b.csv").write_text("id\n1\n")
    status = Path.stat

    def refuse(path, **more):
        if path.parent.name == "closed":
            raise PermissionError(13, "Permission denied", str(path))
        return status(path, **more)

    monkeypatch.setattr(Path, "stat", refuse)  # tests may run as root
    assert all_rows(reader_of(tmp_path, recursive="true")) == [{"id": 1}]


def test_columns_are_not_inferred_from_a_file_that_cannot_be_read(tmp_path, monkeypatch):
    (tmp_path / "a.csv").write_text("x\n1\n")
    (tmp_path / "b.csv").write_text("id\n1\n")
    opened = Path.open

    def refuse(path, *rest, **more):
        if path.name == "a.csv":
            raise PermissionError(13, "Permission denied", str(path))
        return opened(path, *rest, **more)

    reader = reader_of(tmp_path)
    start = reader.initialOffset()
    end = {"files": {str(tmp_path / "b.csv"): 5}}
    monkeypatch.setattr(Path, "open", refuse)  # tests may run as root
    assert rows_of(reader, start, end) == [{"id": 1}]


UNFINISHED = {
    "row": ("id,name\n1,x\n2", [1]), "value": ("id,name\n1,x\n2,y\n12", [1, 2]), "header": ("id,na", []),
    "header line": ("id,name", []), "crlf": ("id,name\r\n1,x\r\n2", [1]), "quote": ('id,name\n1,x\n2,"', [1]),
}  # fmt: skip


@pytest.mark.parametrize("multiline", ["false", "true"])
@pytest.mark.parametrize(("text", "found"), UNFINISHED.values(), ids=UNFINISHED)
def test_columns_are_not_inferred_from_the_unfinished_end_of_a_file(tmp_path, text, found, multiline):
    """It failed the task, or gave the columns of all files other names or types."""
    (tmp_path / "a.csv").write_bytes(text.encode())
    (tmp_path / "b.csv").write_text("id,name\n3,z\n")
    rows = all_rows(reader_of(tmp_path, csv_multiline=multiline))
    assert rows == [{"id": n, "name": "wxyz"[n]} for n in [*found, 3]]


def test_types_are_those_of_the_first_file_with_rows(tmp_path):
    """A file with only a header made all columns strings, for as long as the task ran."""
    reader = reader_of(tmp_path)
    (tmp_path / "a.csv").write_text("id\n")
    end = reader.latestOffset(start := reader.initialOffset())
    assert [part.columns for part in reader.partitions(start, end)] == [()]
    (tmp_path / "a.csv").write_text("id\n1\n")
    assert [part.columns for part in reader.partitions(end, reader.latestOffset(end))] == [(("id", pa.int64()),)]


def test_a_first_row_that_is_longer_than_the_sample(tmp_path, monkeypatch):
    monkeypatch.setattr(formats, "SAMPLE_BYTES", 20)
    (tmp_path / "a.csv").write_text(f"id,text\n1,{'x' * 100}\n2,y\n")
    assert all_rows(reader_of(tmp_path)) == [{"id": 1, "text": "x" * 100}, {"id": 2, "text": "y"}]


@pytest.mark.parametrize("before", ["", "\n" * 30])
def test_a_header_that_is_longer_than_the_sample(tmp_path, monkeypatch, before):
    """The file was said to have other columns."""
    monkeypatch.setattr(formats, "SAMPLE_BYTES", 20)
    (tmp_path / "a.csv").write_text(f"{before}id,{'x' * 100}\n1,y\n2,z\n")
    assert all_rows(reader_of(tmp_path)) == [{"id": 1, "x" * 100: "y"}, {"id": 2, "x" * 100: "z"}]


def test_columns_are_inferred_from_the_next_file_if_one_is_malformed(tmp_path, caplog):
    (tmp_path / "a.csv").write_text("id,name\n1,x\n2\n")
    (tmp_path / "b.csv").write_text("id,name\n1,x\n")
    reader = reader_of(tmp_path)
    assert rows_of(reader, reader.initialOffset(), {"files": {str(tmp_path / "b.csv"): 12}}) == [{"id": 1, "name": "x"}]
    assert "a.csv has rows that cannot be read, so no columns are inferred from it: " in caplog.text
    with pytest.raises(DataError, match=r"a\.csv"):
        all_rows(reader)
    (tmp_path / "b.csv").unlink()
    with pytest.raises(DataError, match=r"a\.csv"):
        all_rows(reader_of(tmp_path))


@pytest.mark.parametrize("schema", [None, "id INT, name STRING"])
def test_invalid_utf8_is_replaced_as_in_other_formats(tmp_path, schema):
    """Without a schema, it made the column BYTES in all files; with one, it failed the task."""
    (tmp_path / "a.csv").write_bytes("id,name\n1,x\n2,\xe9\n3,\n".encode("latin-1"))
    names = [row["name"] for row in all_rows(reader_of(tmp_path, **{"schema": schema} if schema else {}))]
    assert names == ["x", "\ufffd", None]


def test_a_header_with_two_columns_of_one_name_is_an_error_that_names_it(tmp_path):
    (tmp_path / "a.csv").write_text("id,name,x,name\n1,a,2,b\n")
    for options in ({}, {"schema": "id INT, name STRING"}):
        with pytest.raises(DataError, match=r"file .*/a\.csv has several columns named name: rename"):
            all_rows(reader_of(tmp_path, **options))
    assert all_rows(reader_of(tmp_path, schema="id INT, x INT")) == [{"id": 1, "x": 2}]
    (tmp_path / "b.csv").write_text("id,id\n1,2\n")
    with pytest.raises(DataError, match=r"file .*/b\.csv has several columns named id"):
        all_rows(reader_of(tmp_path, schema="id INT, x INT"))


def test_schema_delimiter_and_header_are_configurable(tmp_path):
    (tmp_path / "a.txt").write_text("1|x\n2|y\n")
    reader = reader_of(tmp_path, format="csv", csv_header="false", csv_delimiter="|", schema="id INT, name STRING")
    assert all_rows(reader) == [{"id": 1, "name": "x"}, {"id": 2, "name": "y"}]


@pytest.mark.parametrize(("key", "value", "between"), [
    ("csv.delimiter", "\t", "\t"), ("csv.delimiter", "\\t", "\t"), ("csv.delimiter", " ", " "),
    ("csv.delimiter", " \\t ", "\t"), ("csv.delimiter", "; ", ";"), ("csv.quote", "'", ","),
])
def test_a_delimiter_or_quote_may_be_any_ascii_character(tmp_path, key, value, between):
    """A tab or a blank was accepted, and failed the task."""
    assert FilesSourceConnector.validate({"path": "x", "topic": "t", key: value}) == {}
    (tmp_path / "a.csv").write_text(f"id{between}name\n1{between}x\n")
    assert all_rows(reader_of(tmp_path, **{key: value})) == [{"id": 1, "name": "x"}]


def test_a_row_that_violates_the_schema_is_an_error(tmp_path):
    (tmp_path / "a.csv").write_text("id\n1\nx\n")
    reader = reader_of(tmp_path, schema="id INT")
    with pytest.raises(DataError, match=r"a\.csv.*cannot be read"):
        all_rows(reader)


def test_json_lines_are_read_except_an_incomplete_last_one(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"a":1,"b":"x"}\n\n{"a":2,"b":null}\n{"a"')
    assert all_rows(reader_of(tmp_path)) == [{"a": 1, "b": "x"}, {"a": 2, "b": None}]
    (tmp_path / "a.jsonl").write_text("{oops\n")
    with pytest.raises(DataError, match=r"a\.jsonl.*oops"):
        all_rows(reader_of(tmp_path))


def test_json_lines_that_span_several_blocks_are_read(tmp_path, monkeypatch):
    monkeypatch.setattr("spark_tasks.connectors.files.formats.BLOCK_BYTES", 16)
    (tmp_path / "a.jsonl").write_text(
        "".join(f'{{"i":{i}}}\n' for i in range(20)) + '{"i":"' + "x" * 60 + '"}\n{"i":1}\n'
    )
    reader = reader_of(tmp_path)
    start = reader.initialOffset()
    parts = reader.partitions(start, reader.latestOffset(start))
    batches = [batch for part in parts for batch in reader.read(part)]
    values = [row["i"] for b in batches for row in to_python(b["value"], b.schema.field("value").metadata)]
    assert values == [*range(20), "x" * 60, 1]


def test_lines_after_a_long_one_are_read_in_blocks(tmp_path, monkeypatch):
    """They became one batch, however many they were."""
    monkeypatch.setattr(formats, "BLOCK_BYTES", 16)
    lines = ['{"i":"' + "x" * 60 + '"}', *('{"i":1}',) * 50]
    (tmp_path / "a.jsonl").write_text("".join(f"{line}\n" for line in lines))
    reader = reader_of(tmp_path)
    start = reader.initialOffset()
    [part] = reader.partitions(start, reader.latestOffset(start))
    sizes = [len(batch) for batch in reader.read(part)]
    assert sum(sizes) == 51
    assert max(sizes) < 10


@pytest.mark.parametrize("wait", ["-1", "0"])
@pytest.mark.parametrize(("name", "text", "byte"), [
    ("a.jsonl", '{"i":1}\n{"i":"' + "x" * 200, 8), ("a.csv", "i\n1\n" + "x" * 200, 4),
    ("a.csv", 'i\n1\n"\n' + "x\n" * 100, 4),
])  # fmt: skip
def test_a_line_that_is_too_large_for_memory_is_an_error(tmp_path, monkeypatch, name, text, byte, wait):
    monkeypatch.setattr(line_ends, "MAX_LINE_BYTES", 100)
    (tmp_path / name).write_text(text)
    reader = reader_of(tmp_path, last_line_wait_ms=wait, csv_multiline="true")
    first = reader.latestOffset(reader.initialOffset(), ReadMaxBytes(20))
    with pytest.raises(ConnectError, match=rf"/{name} has a line of 100 bytes or more at byte {byte}, "):
        reader.latestOffset(first, ReadMaxBytes(20))


def test_parquet_files_are_read_by_row_groups(tmp_path):
    pq.write_table(pa.table({"id": range(10)}), tmp_path / "a.parquet", row_group_size=4)
    (tmp_path / "b.parquet").write_bytes(b"PAR1 half")
    reader = reader_of(tmp_path)
    one = reader.latestOffset(reader.initialOffset(), ReadMaxBytes(1))
    assert one == {"files": {str(tmp_path / "a.parquet"): 1}}
    assert [row["id"] for row in rows_of(reader, reader.initialOffset(), one)] == [0, 1, 2, 3]
    end = reader.latestOffset(one)
    assert [row["id"] for row in rows_of(reader, one, end)] == [4, 5, 6, 7, 8, 9]
