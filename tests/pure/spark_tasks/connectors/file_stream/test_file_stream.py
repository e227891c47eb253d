import io
import os
import pickle
import sys
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql.streaming.datasource import ReadMaxBytes

from spark_tasks.connectors.file_stream import line_ends
from spark_tasks.connectors.file_stream.connectors import FileStreamSinkConnector, FileStreamSourceConnector
from spark_tasks.connectors.file_stream.source import FileReader, StandardInputReader
from spark_tasks.connectors.file_stream.standard_input import ReadAhead
from spark_tasks.connectors.lines import split_lines
from spark_tasks.errors import ConnectError, RetriableError
from tests.rigs.support import wait_until


def lines_of(reader, start, end):
    reader = pickle.loads(pickle.dumps(reader))
    return [
        line
        for part in reader.partitions(start, end)
        for batch in reader.read(part)
        for line in batch["value"].to_pylist()
    ]


def reader_of(file):
    options = {"file": str(file), "topic": "t", "name": "n"}
    return FileStreamSourceConnector.data_source(options).streamReader(None)


def at(file, position):
    return {"filename": str(file), "position": position}


def test_limits_cut_at_line_ends(tmp_path):
    file = tmp_path / "f"
    file.write_bytes(b"one\ntwo\nthree\n" + b"x" * 50 + b"\nlast")
    reader = reader_of(file)
    ends, position = [], reader.initialOffset()
    while (end := reader.latestOffset(position, ReadMaxBytes(9))) != position:
        ends.append((end["position"], lines_of(reader, position, end)))
        position = end
    assert ends == [(8, ["one", "two"]), (14, ["three"]), (65, ["x" * 50])]


def test_a_line_longer_than_a_chunk_is_read_whole(tmp_path, monkeypatch):
    monkeypatch.setattr("spark_tasks.connectors.file_stream.source.CHUNK_BYTES", 16)
    file = tmp_path / "f"
    file.write_bytes(b"a\n" + b"b" * 100 + b"\nc\r\nd\r")
    file.write_bytes(file.read_bytes() + b"e\n")
    reader = reader_of(file)
    assert lines_of(reader, reader.initialOffset(), reader.latestOffset(reader.initialOffset())) == [
        "a",
        "b" * 100,
        "c",
        "d",
        "e",
    ]


def test_truncation_waits_until_the_file_is_longer_again(tmp_path, caplog):
    file = tmp_path / "f"
    file.write_text("12345\n")
    reader = reader_of(file)
    end = reader.latestOffset(reader.initialOffset())
    file.write_text("x\n")
    assert reader.latestOffset(end) == end
    assert reader.latestOffset(end) == end
    assert sum("waiting" in message for message in caplog.messages) == 1
    file.write_text("x\n234\n\nnew\n")
    assert lines_of(reader, end, reader.latestOffset(end)) == ["", "new"]


def test_a_file_that_shrinks_between_planning_and_reading_is_an_error(tmp_path):
    file = tmp_path / "f"
    file.write_text("abc\n")
    reader = reader_of(file)
    (part,) = reader.partitions(reader.initialOffset(), reader.latestOffset(reader.initialOffset()))
    for left in ("", "123", "123456789"):  # nothing, half a line, and another file without a line end
        file.write_text(left)
        with pytest.raises(ConnectError, match="truncated"):
            list(reader.read(part))


def test_a_line_that_is_too_large_for_memory_is_an_error(tmp_path, monkeypatch):
    """A line of two gigabytes failed with `Negative offsets in binary array`; a larger one could end the process."""
    monkeypatch.setattr(line_ends, "MAX_LINE_BYTES", 4 * 1024 * 1024)
    file = tmp_path / "f"
    with file.open("wb") as large:
        large.write(b"first\n" + b"x" * (3 * 1024 * 1024) + b"\n")
        large.seek(20 * 1024 * 1024)  # a sparse file
        large.write(b"\nlast\n")
    reader = reader_of(file)
    (part,) = reader.partitions(reader.initialOffset(), reader.latestOffset(reader.initialOffset()))
    too_large = r"^file .*/f has a line of 4194304 bytes or more at byte 3145735, "
    with pytest.raises(ConnectError, match=too_large):
        list(reader.read(part))
    with pytest.raises(ConnectError, match=too_large):  # if its end is beyond the limit, too
        reader.latestOffset({"position": 3145735}, ReadMaxBytes(1000))
    after = FileReader(str(file), "t")
    assert lines_of(after, {"filename": str(file), "position": 20 * 1024 * 1024},
                    after.latestOffset({"position": 20 * 1024 * 1024})) == ["", "last"]


def test_a_folder_in_place_of_the_file_is_an_error(tmp_path):
    with pytest.raises(ConnectError, match=rf"^file {tmp_path} cannot be read: .*Is a directory"):
        FileReader(str(tmp_path), "lines").latestOffset({"position": 0})


def test_invalid_utf8_is_replaced(tmp_path):
    file = tmp_path / "f"
    file.write_bytes(b"ok\n\xff\xfe\n")
    reader = reader_of(file)
    assert lines_of(reader, reader.initialOffset(), reader.latestOffset(reader.initialOffset())) == ["ok", "��"]


def test_positions_are_bytes(tmp_path):
    """Java counts characters and skips bytes, so it reads a part of the text again after its first offset (ADR 0008).

    """
    file = tmp_path / "f"
    file.write_text("äöü\nnext\n", "utf-8")
    reader = reader_of(file)
    end = reader.latestOffset(reader.initialOffset(), ReadMaxBytes(8))
    assert (end, reader.latestOffset(end)) == (at(file, 7), at(file, 12))
    assert lines_of(reader, end, at(file, 12)) == ["next"]
    assert lines_of(reader, at(file, len("äöü\n")), at(file, 12)) == ["ü", "next"]


def test_records_have_a_topic_a_timestamp_and_a_string_value(tmp_path):
    file = tmp_path / "f"
    file.write_text("a\n")
    reader = reader_of(file)
    (part,) = reader.partitions(reader.initialOffset(), reader.latestOffset(reader.initialOffset()))
    (batch,) = reader.read(part)
    assert batch.schema.names == ["topic", "timestamp", "value"]
    assert batch["topic"].to_pylist() == ["t"]
    assert batch.schema.field("value").metadata == {b"connect.schema": b'{"type":"string","optional":false}'}


def test_positions_are_converted_to_source_offsets_and_back(tmp_path):
    reader = FileReader("/a", "t")
    assert reader.to_source_offsets(at("/a", 7)) == [({"filename": "/a"}, {"position": 7})]
    assert reader.from_source_offsets(
        [({"filename": "/b"}, {"position": 3}), ({"filename": "/a"}, {"position": 7})]
    ) == at("/a", 7)
    assert reader.from_source_offsets([({"filename": "/b"}, {"position": 3})]) == at("/a", 0)
    with pytest.raises(ConnectError, match="incorrect type"):
        reader.from_source_offsets([({"filename": "/a"}, {"position": "7"})])


@pytest.mark.parametrize(("offset", "partition", "message"), [
    ({"other": 1}, {"filename": "f"}, "contain the key 'position'"),
    ({"position": "1"}, {"filename": "f"}, "expected to be a Long"),
    ({"position": True}, {"filename": "f"}, "expected to be a Long"),
    ({"position": -1}, {"filename": "f"}, "non-negative"),
    ({"position": 1}, {"other": "f"}, "contain the key 'filename'"),
    ({"position": 1}, None, "cannot be null"),
])  # fmt: skip
def test_invalid_offsets_are_refused(offset, partition, message):
    with pytest.raises(ConnectError, match=message):
        FileStreamSourceConnector.alter_offsets({"file": "f", "topic": "t"}, [(partition, offset)])


def test_valid_offsets_are_accepted_except_for_stdin():
    assert FileStreamSourceConnector.alter_offsets(
        {"file": "f", "topic": "t"}, [({"filename": "f"}, {"position": 5}), ({"any": 1}, None)]
    )
    for file in ({}, {"file": ""}, {"file": " "}, {"file": None}):
        with pytest.raises(ConnectError, match="stdin"):
            FileStreamSourceConnector.alter_offsets({"topic": "t", **file}, [])


def test_a_file_that_is_removed_before_it_is_read_is_waited_for(tmp_path):
    (tmp_path / "a").write_text("x\n")
    reader = FileReader(str(tmp_path / "a"), "t")
    [part] = reader.partitions(start := reader.initialOffset(), reader.latestOffset(start))
    (tmp_path / "a").unlink()
    with pytest.raises(RetriableError, match="was removed before it was read"):
        [*reader.read(part)]
    assert reader.latestOffset(start) == start


def test_settings_are_trimmed_as_in_kafka_connect(tmp_path):
    """Values in properties files may end with blanks, which the file's name had."""
    (tmp_path / "a").write_text("x\n")
    config = {"file": f" {tmp_path}/a ", "topic": "\tt ", "batch.size": " 1 "}
    reader = FileStreamSourceConnector.data_source(config).streamReader(None)
    end = reader.latestOffset(start := reader.initialOffset())
    assert end == {"filename": f"{tmp_path}/a", "position": 2}
    [part] = reader.partitions(start, end)
    assert [row for batch in reader.read(part) for row in batch.select(["topic", "value"]).to_pylist()] == [
        {"topic": "t", "value": "x"}]
    assert FileStreamSourceConnector.exactly_once_support(config)
    assert not FileStreamSourceConnector.exactly_once_support({"file": " ", "topic": "t"})
    writer = FileStreamSinkConnector.data_source({"file": f" {tmp_path}/b "}).writer(None, overwrite=False)
    writer.write(iter([pa.record_batch({"value": pa.array(["y"])})]))
    assert (tmp_path / "b").read_text() == "y\n"


def test_a_sink_without_a_name_for_its_file_fails_as_in_kafka_connect():
    with pytest.raises(ConnectError, match="Couldn't find or create file '' for FileStreamSink"):
        FileStreamSinkConnector.data_source({"file": " "}).writer(None, overwrite=False)


def test_the_connectors_have_javas_task_configs_and_validation():
    connector = FileStreamSourceConnector({"file": "f", "topic": "t"}, None)
    assert connector.task_configs(5) == [{"file": "f", "topic": "t"}]
    assert FileStreamSourceConnector.exactly_once_support({"file": "f", "topic": "t"}) is True
    assert FileStreamSourceConnector.exactly_once_support({"topic": "t"}) is False
    assert [v.errors for v in FileStreamSourceConnector.config_def.validate({"topic": ""})] == [
        [], ["Invalid value  for configuration topic: String must be non-empty"], [],
    ]  # fmt: skip
    assert len(FileStreamSinkConnector({"file": "f"}, None).task_configs(3)) == 3


def test_standard_input_is_read_line_by_line(monkeypatch):
    out, into = os.pipe()
    ahead = ReadAhead(out)
    monkeypatch.setattr("spark_tasks.connectors.file_stream.source.standard_input", lambda: ahead)
    reader = StandardInputReader("t")
    start = reader.initialOffset()
    assert reader.latestOffset(start) == start
    os.write(into, b"one\ntwo\r\npart")
    wait_until(lambda: reader.latestOffset(start) != start)
    end = reader.latestOffset(start)
    assert lines_of_stdin(reader, start, end) == ["one", "two"]
    assert reader.to_source_offsets(end) == [({"filename": None}, {"position": None})]
    reader.commit(end)
    assert reader.initialOffset() == end
    os.close(into)


def test_a_pipe_is_refused(tmp_path):
    """The task waited for a writer, and could not be stopped."""
    file = tmp_path / "pipe"
    os.mkfifo(file)
    with pytest.raises(ConnectError, match=rf"^file {file} is a pipe, .* standard input, do not set file$"):
        reader_of(file).latestOffset({"position": 0})


@pytest.mark.parametrize("limit", range(1, 12))
def test_a_batch_of_standard_input_ends_at_no_half_of_a_line_end(limit):
    """The LF of a CR LF became an empty line of the next batch."""
    out, into = os.pipe()
    ahead, found, at = ReadAhead(out), [], 0
    os.write(into, b"one\r\ntwo\r\rthree\r\n\n!")
    wait_until(lambda: ahead.line_end(0, 100) == 18)
    while (end := ahead.line_end(at, limit)) > at:
        lines, _ = split_lines(np.frombuffer(ahead.between(at, end), np.uint8), final=True)
        found, at = found + lines.to_pylist(), end
    assert found == ["one", "two", "", "three", ""]
    os.close(into)


def test_readers_of_standard_input_continue_after_what_another_one_has_committed(monkeypatch):
    """They sent parts of lines."""
    out, into = os.pipe()
    ahead = ReadAhead(out)
    monkeypatch.setattr("spark_tasks.connectors.file_stream.source.standard_input", lambda: ahead)
    first, second = StandardInputReader("t"), StandardInputReader("t")
    start = first.initialOffset()
    os.write(into, b"".join(b"line %03d\n" % number for number in range(20)))
    wait_until(lambda: first.latestOffset(start) == {"at": 180})
    planned = second.latestOffset(start, ReadMaxBytes(27))
    first.commit({"at": 90})
    assert lines_of_stdin(second, start, planned) == []
    after = second.latestOffset(planned, ReadMaxBytes(18))
    assert lines_of_stdin(second, planned, after) == ["line 010", "line 011"]
    os.close(into)


def test_a_line_of_standard_input_that_cannot_be_held_is_an_error(monkeypatch):
    """Nothing more was read, without a message."""
    monkeypatch.setattr("spark_tasks.connectors.file_stream.standard_input.BUFFER_BYTES", 10)
    out, into = os.pipe()
    ahead = ReadAhead(out)
    os.write(into, b"1\n" + b"x" * 20)
    wait_until(lambda: ahead.line_end(0, 100) == 2)
    ahead.discard(2)
    with pytest.raises(ConnectError, match=r"^standard input has a line of more than 10 bytes$"):
        ahead.line_end(2, 100)
    os.close(into)


def lines_of_stdin(reader, start, end):
    parts = pickle.loads(pickle.dumps(reader.partitions(start, end)))
    return [line for part in parts for batch in reader.read(part) for line in batch["value"].to_pylist()]


def batch_of(values, metadata=None):
    array = values if isinstance(values, pa.Array) else pa.array(values)
    return pa.RecordBatch.from_arrays([array], schema=pa.schema([pa.field("value", array.type, metadata=metadata)]))


def writer_of(file):
    return FileStreamSinkConnector.data_source({"file": str(file)} if file else {}).writer(None, overwrite=False)


def test_values_are_printed(tmp_path):
    file = tmp_path / "out"
    writer = pickle.loads(pickle.dumps(writer_of(file)))
    written = writer.write(
        iter([batch_of(["a", None, "ü"]), batch_of([1, 2]), batch_of(pa.array([b"raw\xff"])), batch_of([1.5, 1e10])])
    )
    assert file.read_bytes() == "a\nnull\nü\n1\n2\n".encode() + b"raw\xff\n1.5\n1.0E10\n"
    assert written.rows == 8
    assert written.size == file.stat().st_size
    writer.write(iter([batch_of(["more"])]))
    assert file.read_text(errors="replace").endswith("\nmore\n")


def test_a_slice_of_a_batch_is_printed(tmp_path):
    file = tmp_path / "out"
    writer_of(file).write(iter([batch_of([f"line {i}" for i in range(10)]).slice(3, 2)]))
    assert file.read_text() == "line 3\nline 4\n"


def test_the_standard_output_is_the_workers(monkeypatch):
    out = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", SimpleNamespace(buffer=out))
    writer = writer_of(None)
    messages = [pickle.loads(pickle.dumps(writer.write(iter([batch_of([f"from {split}"])])))) for split in range(2)]
    writer.commit([*messages, None])
    assert out.getvalue() == b"from 0\nfrom 1\n"


def test_splits_write_to_one_file_at_a_time_without_tearing_lines(tmp_path):
    file = tmp_path / "out"

    def split(number):
        batches = (batch_of([f"{number}-{batch}-{i}-" + "x" * 200 for i in range(2000)]) for batch in range(5))
        return writer_of(file).write(batches).rows

    with ThreadPoolExecutor(4) as pool:
        assert sum(pool.map(split, range(4))) == 40_000
    lines = file.read_text().splitlines()
    assert len(lines) == 40_000
    assert sorted(lines) == sorted(f"{n}-{b}-{i}-" + "x" * 200 for n in range(4) for b in range(5) for i in range(2000))
    for number in range(4):  # in order within a split
        mine = [line for line in lines if line.startswith(f"{number}-")]
        assert mine == sorted(mine, key=lambda line: [int(part) for part in line.split("-")[:3]])


def test_a_file_that_cannot_be_opened(tmp_path):
    with pytest.raises(ConnectError, match="Couldn't find or create file"):
        writer_of(tmp_path / "no" / "such" / "folder").write(iter([batch_of(["x"])]))
