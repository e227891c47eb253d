import json
import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql.streaming.datasource import ReadMaxBytes, ReadMaxFiles

from spark_tasks.connectors.files import formats
from spark_tasks.connectors.files.connector import FilesSourceConnector
from spark_tasks.connectors.files.reader import FilesReader
from spark_tasks.connectors.files.settings import FilesSettings
from spark_tasks.errors import ConfigError, ConnectError, DataError, RetriableError
from tests.rigs.files_source import all_rows, reader_of, rows_of


def test_csv_columns_have_inferred_types(tmp_path):
    (tmp_path / "a.csv").write_text('id,name,at,x\n1,"b, c",2024-01-02 03:04:05,1.5\n2,NA,,\n3,"NA",,2\n')
    reader = reader_of(tmp_path)
    rows = all_rows(reader)
    assert [(row["id"], row["name"], row["x"]) for row in rows] == [(1, "b, c", 1.5), (2, None, None), (3, "NA", 2.0)]
    (part,) = reader.partitions(reader.initialOffset(), reader.latestOffset(reader.initialOffset()))
    (batch,) = reader.read(part)
    schema = json.loads(batch.schema.field("value").metadata[b"connect.schema"])
    assert [(f["field"], f["type"], f.get("name")) for f in schema["fields"]] == [
        ("id", "int64", None), ("name", "string", None),
        ("at", "int64", "org.apache.kafka.connect.data.Timestamp"), ("x", "double", None),
    ]  # fmt: skip


def test_timestamps_must_match_the_given_schema(tmp_path):
    (tmp_path / "a.csv").write_text("zoned,plain\n2024-01-02T03:04:05+01:00,2024-01-02 03:04:05\n")
    schema = "zoned timestamp, plain timestamp_ntz"
    assert FilesSourceConnector.validate({"path": str(tmp_path), "topic": "t", "schema": schema}) == {}
    (row,) = all_rows(reader_of(tmp_path, schema=schema))
    assert row["zoned"].isoformat() == "2024-01-02T02:04:05+00:00"
    assert row["plain"].isoformat() == "2024-01-02T03:04:05"
    for wrong in ("zoned timestamp_ntz", "plain timestamp"):
        with pytest.raises(DataError, match="TIMESTAMP is for times with a zone, TIMESTAMP_NTZ for times without"):
            all_rows(reader_of(tmp_path, schema=wrong))


def test_files_without_a_complete_row_block_no_others(tmp_path):
    for name in "ab":
        (tmp_path / f"{name}.jsonl").write_text('{"id": 0')
    (tmp_path / "c.jsonl").write_text('{"id": 1}\n')
    assert all_rows(reader_of(tmp_path, files_parallel="2")) == [{"id": 1}]


def test_files_that_always_grow_starve_no_others(tmp_path):
    reader = reader_of(tmp_path, files_parallel="2")
    end, found = reader.initialOffset(), []
    for turn in range(4):
        for name in "abc":
            with (tmp_path / f"{name}.jsonl").open("a") as file:
                file.write(json.dumps({name: turn}) + "\n")
        start, end = end, reader.latestOffset(end)
        found += rows_of(reader, start, end)
    assert {key for row in found for key in row} == {"a", "b", "c"}


def test_a_file_that_is_deleted_while_it_is_examined(tmp_path, monkeypatch):
    (tmp_path / "a.jsonl").write_text('{"id": 1}\n')
    reader = reader_of(tmp_path)
    complete_until = formats.complete_until

    def vanish(path, *rest):
        path.unlink()
        return complete_until(path, *rest)

    monkeypatch.setattr(formats, "complete_until", vanish)
    assert reader.latestOffset(reader.initialOffset()) == reader.initialOffset()


@pytest.mark.parametrize("ending", ["csv", "json", "parquet"])
@pytest.mark.parametrize("planned", [False, True])
def test_a_file_that_is_removed_before_it_is_read_is_left_out_of_the_next_batch(tmp_path, ending, planned):
    """It failed the task."""
    file = tmp_path / f"a.{ending}"
    file.write_text('{"id": 1}\n')
    if ending == "parquet":
        pq.write_table(pa.table({"id": [1]}), file)
    reader = reader_of(tmp_path)
    start = reader.initialOffset()
    end = reader.latestOffset(start)
    parts = reader.partitions(start, end) if planned else ()
    file.unlink()
    with pytest.raises(RetriableError, match="removed before"):
        [*map(list, map(reader.read, parts or reader.partitions(start, end)))]
    assert reader.latestOffset(start) == start


def test_a_folder_that_is_missing_or_cannot_be_listed_is_reported_once_and_waited_for(tmp_path, caplog, monkeypatch):
    folder = tmp_path / "folder"
    config = {"path": str(folder), "topic": "t", "recursive": "true"}
    settings = FilesSettings.of(FilesSourceConnector.config_def.parse(config), config)
    first, second = (FilesReader(settings, index, 2) for index in (0, 1))
    missing = f"Folder {folder} does not exist (yet): waiting for it to be created"

    def reported():
        for reader in (first, first, second):
            reader.latestOffset(reader.initialOffset())
        lines = [record.message for record in caplog.records]
        caplog.clear()
        return lines

    assert reported() == [missing]
    assert reported() == []
    (folder / "closed").mkdir(parents=True)
    assert reported() == []
    (folder / "closed").rmdir()
    folder.rmdir()
    assert reported() == [missing]
    (folder / "closed").mkdir(parents=True)
    (folder / "a.json").write_text('{"n": 1}\n')
    scandir = os.scandir

    def refused(path):
        if str(path).endswith("closed"):
            raise PermissionError(13, "Permission denied", path)
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refused)  # tests may run as root
    assert reported() == [
        f"Folder {folder}/closed cannot be listed (Permission denied): its files are skipped until it can be"]
    found = [reader.latestOffset(reader.initialOffset())["files"] for reader in (first, second)]
    assert sorted(path for files in found for path in files) == [f"{folder}/a.json"]


@pytest.mark.parametrize("ending", ["csv", "json", "parquet"])
def test_a_file_that_cannot_be_read_is_reported_once_and_stops_no_others(tmp_path, caplog, monkeypatch, ending):
    (tmp_path / "a.json").write_text('{"n": 1}\n')
    closed, loop, pipe = (tmp_path / f"{name}.{ending}" for name in ("closed", "loop", "pipe"))
    pq.write_table(pa.table({"n": [1]}), closed)
    loop.symlink_to(loop)
    os.mkfifo(pipe)
    opened, opened_path = os.open, Path.open

    def refuse(path):
        if Path(path) == closed:
            raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(os, "open", lambda path, *rest: refuse(path) or opened(path, *rest))  # tests may run as root
    monkeypatch.setattr(Path, "open", lambda path, *rest: refuse(path) or opened_path(path, *rest))
    reader = reader_of(tmp_path)
    for _ in range(2):
        assert reader.latestOffset(reader.initialOffset()) == {"files": {str(tmp_path / "a.json"): 9}}
    skipped = "it is skipped until it can be"
    assert sorted(record.message for record in caplog.records) == [
        f"File {closed} cannot be read (Permission denied): {skipped}",
        f"File {loop} cannot be read (Too many levels of symbolic links): {skipped}"]


@pytest.mark.parametrize("tasks", [1, 2])
def test_a_file_whose_name_is_not_utf8_is_reported_and_stops_no_others(tmp_path, caplog, tasks):
    (tmp_path / "a.json").write_text('{"n": 1}\n')
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9.json")).write_text('{"n": 2}\n')
    configs = FilesSourceConnector({"path": str(tmp_path), "topic": "t"}, None).task_configs(tasks)
    readers = [FilesSourceConnector.data_source(config).streamReader(None) for config in configs]
    assert [row for reader in readers for row in all_rows(reader)] == [{"n": 1}]
    assert f"File {tmp_path}/caf?.json has a name that is not UTF-8, so it is skipped: rename it" in caplog.messages


def test_appended_rows_and_new_files_are_read(tmp_path):
    first = tmp_path / "a.csv"
    first.write_text("id,n\n1,x\n2,part")
    reader = reader_of(tmp_path)
    one = reader.latestOffset(reader.initialOffset())
    assert rows_of(reader, reader.initialOffset(), one) == [{"id": 1, "n": "x"}]
    assert reader.latestOffset(one) == one
    with first.open("a") as out:
        out.write("ial\n3,y\n")
    (tmp_path / "b.csv").write_text("n,id\nz,9\n")
    two = reader.latestOffset(one)
    assert rows_of(reader, one, two) == [{"id": 2, "n": "partial"}, {"id": 3, "n": "y"}, {"id": 9, "n": "z"}]
    assert two == {"files": {str(first): 23, str(tmp_path / "b.csv"): 9}}


def test_a_last_line_without_line_end_is_read_after_a_while(tmp_path):
    file = tmp_path / "a.csv"
    file.write_text("id\n1\n2")
    os.utime(file, (1, 1))
    reader = reader_of(tmp_path)
    one = reader.latestOffset(reader.initialOffset())
    two = reader.latestOffset(one)
    assert rows_of(reader, reader.initialOffset(), two) == [{"id": 1}, {"id": 2}]
    assert reader_of(tmp_path, last_line_wait_ms="-1").latestOffset(one) == one


def test_limits_share_a_batch_among_files(tmp_path):
    for name in "abc":
        (tmp_path / f"{name}.csv").write_text("id\n" + "".join(f"{i:03d}\n" for i in range(100)))
    reader = reader_of(tmp_path, files_parallel="2")
    end = reader.latestOffset(reader.initialOffset(), ReadMaxBytes(80))
    assert sorted(end["files"].values()) == [39, 39]
    assert len(reader.latestOffset(end, ReadMaxFiles(1))["files"]) == 2
    position, seen = reader.initialOffset(), []
    while (end := reader.latestOffset(position, ReadMaxBytes(50))) != position:
        seen += rows_of(reader, position, end)
        position = end
    assert sorted(row["id"] for row in seen) == sorted([*range(100)] * 3)


@pytest.mark.parametrize(("config", "keys"), [
    ({"csv.delimiter": "§"}, ["csv.delimiter"]), ({"csv.delimiter": "  "}, ["csv.delimiter"]),
    ({"csv.delimiter": "\n"}, ["csv.delimiter"]), ({"csv.quote": ""}, ["csv.quote"]),
    ({"csv.quote": "«"}, ["csv.quote"]), ({"csv.quote": ","}, ["csv.quote"]),
    ({"csv.quote": ";", "csv.delimiter": " ; "}, ["csv.quote"]), ({"schema": "id INT, x ARRAY<INT>"}, ["schema"]),
    ({"schema": "x STRUCT<a: INT>"}, ["schema"]), ({"schema": "x MAP<STRING, INT>"}, ["schema"]),
    ({"csv.header": " false ", "format": " csv "}, ["schema"]),
])  # fmt: skip
def test_settings_with_which_no_task_can_run_are_refused(config, keys):
    assert [*FilesSourceConnector.validate({"path": "x", "topic": "t", **config})] == keys


def test_hidden_temporary_and_unknown_files_are_ignored(tmp_path):
    (tmp_path / "sub").mkdir()
    for name in ("a.csv", ".hidden.csv", "_tmp.csv", "b.csv.tmp", "c.bin", "sub/d.csv", "e.tsv"):
        (tmp_path / name).write_text("id\n1\n")

    def names(**options):
        found = reader_of(tmp_path, **options).latestOffset({"files": {}})["files"]
        return [os.path.relpath(file, tmp_path) for file in found]

    assert names() == ["a.csv", "e.tsv"]
    assert names(pattern="*.csv", recursive="true") == ["a.csv", "sub/d.csv"]
    assert reader_of(tmp_path / "a.csv").latestOffset({"files": {}}) == {"files": {str(tmp_path / "a.csv"): 5}}
    assert reader_of(tmp_path / "nothing").latestOffset({"files": {}}) == {"files": {}}


def test_a_single_file_of_an_unknown_format_is_refused(tmp_path):
    """It counted as read, without any records."""
    (tmp_path / "a.log").write_text('{"id": 1}\n')
    with pytest.raises(ConnectError, match=r"^format: the name of .*/a\.log does not show what it contains; set"):
        reader_of(tmp_path / "a.log").latestOffset({"files": {}})
    assert all_rows(reader_of(tmp_path / "a.log", format="json")) == [{"id": 1}]


def test_tasks_share_the_files(tmp_path):
    for i in range(20):
        (tmp_path / f"{i}.csv").write_text(f"id\n{i}\n")
    connector = FilesSourceConnector({"path": str(tmp_path), "topic": "t"}, None)
    configs = connector.task_configs(3)
    readers = [FilesSourceConnector.data_source(c).streamReader(None) for c in configs]
    found = [set(r.latestOffset(r.initialOffset(), None)["files"]) for r in readers]
    offsets = []
    for reader in readers:
        position = reader.initialOffset()
        while (end := reader.latestOffset(position)) != position:
            position = end
        offsets += reader.to_source_offsets(position)
    assert len(offsets) == 20
    assert all(found)
    alone = FilesSourceConnector.data_source(connector.task_configs(1)[0]).streamReader(None)
    start = alone.from_source_offsets(offsets)
    assert alone.latestOffset(start) == start, "a change of tasks.max reads nothing again"


def test_invalid_offsets_and_settings_are_refused(tmp_path):
    with pytest.raises(ConnectError):
        FilesSourceConnector.alter_offsets({}, [({"filename": "f"}, {"position": -1})])
    with pytest.raises(ConnectError):
        FilesSourceConnector.alter_offsets({}, [({}, {"position": 1})])
    with pytest.raises(ConnectError, match="Partition objects cannot be null"):
        FilesSourceConnector.alter_offsets({}, [(None, {"position": 1})])
    assert FilesSourceConnector.alter_offsets({}, [({"filename": "f"}, {"position": 1}), ({}, None), (None, None)])
    assert FilesSourceConnector.validate({"schema": "id NOPE", "csv.delimiter": "||"}).keys() == {
        "schema",
        "csv.delimiter",
    }
    assert FilesSourceConnector.validate({"schema": "id INT, id STRING"}) == {
        "schema": ["Invalid value id INT, id STRING for configuration schema: it has several columns named id"]}
    assert FilesSourceConnector.validate({"csv.header": None, "schema": None}) == {}
    with pytest.raises(ConfigError):
        reader_of(tmp_path, format="xml")
