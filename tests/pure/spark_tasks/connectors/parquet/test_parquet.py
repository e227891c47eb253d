import errno
import json
import os
import pickle
from contextlib import nullcontext
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark import cloudpickle

from spark_tasks.connectors.parquet.claims import claim
from spark_tasks.connectors.parquet.connector import ParquetSinkConnector
from spark_tasks.connectors.parquet.file_names import OffsetRange, parse, present
from spark_tasks.data.schema import DECIMAL
from spark_tasks.errors import ConnectError, DataError, RetriableError
from spark_tasks.pipeline.sink_pipeline import SinkPipeline
from spark_tasks.sinks.writes import WriterRunner
from tests.rigs.raw_records import JSON, converted, raw_batch, worker

PIPELINE = SinkPipeline(worker(), {"value.converter": JSON, "value.converter.schemas.enable": "false"})


def writer_of(folder, **options):
    config = {"path": str(folder), **{k.replace("_", "."): v for k, v in options.items()}}
    return ParquetSinkConnector.data_source(config).writer(None, overwrite=False)


def records(first, count, text='{"id":%d,"name":"n"}'):
    texts = [(text % i if "%" in text else text).encode() for i in range(first, first + count)]
    return converted(PIPELINE, "t-x", 2, raw_batch(texts, offset=first))


def write(writer, *batches):
    return pickle.loads(pickle.dumps(pickle.loads(pickle.dumps(writer)).write(iter(batches))))


def visible(folder):
    return sorted(p.name for p in folder.iterdir() if not p.name.startswith("."))


def ids(folder):
    return sorted(
        row["id"]
        for p in folder.glob("*.parquet")
        if not p.name.startswith(".")
        for row in pq.read_table(p).to_pylist()
    )


def test_a_batch_is_visible_after_its_commit(tmp_path):
    writer = writer_of(tmp_path)
    message = write(writer, records(5, 3), records(8, 2))
    assert visible(tmp_path) == []
    writer.commit([message, None])
    assert visible(tmp_path) == ["t-x-2-00000000000000000005-00000000000000000009.parquet"]
    assert ids(tmp_path) == [5, 6, 7, 8, 9]
    assert pq.read_schema(tmp_path / visible(tmp_path)[0]).names == ["name", "id"]
    assert writer.resume_from("t-x", 2) == 10
    assert writer.resume_from("t-x", 1) is None
    assert writer.resume_from("t", 2) is None


def test_a_sink_resumes_by_the_original_topic_and_not_a_routed_one(tmp_path):
    """Files are named by Kafka's topic, with which a task calls resume_from after a restart."""
    router = {"transforms": "r", "transforms.r.type": "RegexRouter", "transforms.r.regex": ".*",
              "transforms.r.replacement": "routed"}  # fmt: skip
    pipeline = SinkPipeline(worker(), {"value.converter": JSON, "value.converter.schemas.enable": "false", **router})
    batches = pipeline.to_connect_batches("orders", 2, raw_batch([b'{"id":1}', b'{"id":2}'], offset=5))
    writer = writer_of(tmp_path, **{"kafka.columns": "true"})
    runner = WriterRunner(cloudpickle.dumps(writer), "records", ("orders", 2), tolerant=False, refuse=lambda *_: None)
    writer.commit([runner.write(batches)[0]])
    assert writer.resume_from("orders", 2) == 7
    assert writer.resume_from("routed", 2) is None
    [name] = visible(tmp_path)
    assert name.startswith("orders-2-")
    assert pq.read_table(tmp_path / name)["_topic"].to_pylist() == ["routed", "routed"]


def test_a_batch_that_is_written_again_is_refused(tmp_path):
    writer = writer_of(tmp_path)
    writer.commit([write(writer, records(0, 4))])
    with pytest.raises(RetriableError, match="another task has written"):
        writer.commit([write(writer, records(0, 4))])
    assert ids(tmp_path) == [0, 1, 2, 3]


def test_overlapping_offsets_of_another_task_are_refused(tmp_path):
    writer = writer_of(tmp_path)
    writer.commit([write(writer, records(0, 4))])
    late = write(writer, records(2, 4))
    with pytest.raises(ConnectError, match="another task has written"):
        writer.commit([late])
    writer.abort([late])
    assert ids(tmp_path) == [0, 1, 2, 3]
    assert list(tmp_path.glob(".*.tmp")) == []


def test_a_task_suspended_between_listing_the_folder_and_its_commit(tmp_path, monkeypatch):
    """Its successor has written the same offsets and more: the task's records would be duplicates."""
    zombie = writer_of(tmp_path)
    late = write(zombie, records(0, 4))
    successor = writer_of(tmp_path)

    def sleep(*claimed):
        monkeypatch.undo()
        assert successor.resume_from("t-x", 2) is None
        successor.commit([write(successor, records(0, 9))])
        return claim(*claimed)

    monkeypatch.setattr("spark_tasks.connectors.parquet.writer.claim", sleep)
    with pytest.raises(RetriableError, match="another task has written"):
        zombie.commit([late])
    zombie.abort([late])
    assert ids(tmp_path) == list(range(9))


def test_a_claimed_file_is_completed_after_its_task_has_died(tmp_path, monkeypatch):
    writer = writer_of(tmp_path)
    message = write(writer, records(0, 4))
    monkeypatch.setattr("spark_tasks.connectors.parquet.writer.os.replace", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        writer.commit([message])
    monkeypatch.undo()
    assert visible(tmp_path) == []
    assert writer_of(tmp_path).resume_from("t-x", 2) == 4
    assert ids(tmp_path) == [0, 1, 2, 3]


def test_deleted_files_do_not_reappear(tmp_path):
    writer = writer_of(tmp_path)
    writer.commit([write(writer, records(0, 4))])
    for path in tmp_path.glob("[!.]*"):
        path.unlink()
    assert writer_of(tmp_path).resume_from("t-x", 2) is None
    assert list(tmp_path.iterdir()) == []


def moved(folder):
    for path in folder.glob("[!.]*.parquet"):
        (folder / "archive").mkdir(exist_ok=True)
        path.rename(folder / "archive" / path.name)


def kept_as_a_link(folder):
    (folder / "archive").mkdir()
    for path in folder.glob("[!.]*.parquet"):
        os.link(path, folder / "archive" / path.name)
        path.unlink()


@pytest.mark.parametrize("taken", [moved, kept_as_a_link])
def test_files_that_a_reader_has_taken_away_do_not_reappear(tmp_path, taken):
    """They reappeared, as the second name of their data was taken for their hidden one."""
    writer = writer_of(tmp_path)
    writer.commit([write(writer, records(0, 4))])
    taken(tmp_path)
    assert writer_of(tmp_path).resume_from("t-x", 2) is None
    assert visible(tmp_path) == ["archive"]
    writer.commit([write(writer, records(0, 4))])  # as after a reset of the offsets, with which nothing is in the way
    assert ids(tmp_path) == [0, 1, 2, 3]


def test_a_task_suspended_between_claim_and_rename_whose_file_was_completed_and_taken_away(tmp_path, monkeypatch):
    zombie = writer_of(tmp_path)
    late = write(zombie, records(0, 4))

    def sleep(*claimed):
        monkeypatch.undo()
        assert claim(*claimed)
        assert writer_of(tmp_path).resume_from("t-x", 2) == 4
        moved(tmp_path)
        return True

    monkeypatch.setattr("spark_tasks.connectors.parquet.writer.claim", sleep)
    with pytest.raises(RetriableError, match="another task has completed or removed"):
        zombie.commit([late])
    assert zombie.resume_from("t-x", 2) is None
    assert visible(tmp_path) == ["archive"]


def test_a_claim_without_a_hidden_name_is_removed_and_its_batch_repeated(tmp_path, monkeypatch):
    monkeypatch.setattr("spark_tasks.connectors.parquet.writer.labels", lambda _, held: {"heeler.offsets": held.name})
    [(path, held)] = writer_of(tmp_path).write(iter([records(0, 4)])).files
    assert claim(tmp_path, path, held)
    monkeypatch.undo()
    writer = writer_of(tmp_path)
    assert writer.resume_from("t-x", 2) is None
    writer.commit([write(writer, records(0, 6))])
    assert ids(tmp_path) == [0, 1, 2, 3, 4, 5]


def test_a_claim_whose_request_was_repeated_is_the_tasks_own(tmp_path):
    [(path, held)] = write(writer_of(tmp_path), records(0, 4)).files
    [(other, _)] = write(writer_of(tmp_path), records(0, 4)).files
    assert [claim(tmp_path, file, held) for file in (path, path, other)] == [True, True, False]


@pytest.mark.parametrize(("number", "refused"), [(errno.ENOSPC, True), (errno.EIO, True), (errno.ENOTSUP, False)])
def test_only_file_systems_without_hard_links_have_no_claims(tmp_path, monkeypatch, number, refused):
    writer = writer_of(tmp_path)
    message = write(writer, records(0, 4))

    def fail(*_):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr("spark_tasks.connectors.parquet.claims.os.link", fail)
    with pytest.raises(OSError, match=os.strerror(number)) if refused else nullcontext():
        writer.commit([message])
    assert len(visible(tmp_path)) == (0 if refused else 1)


def test_old_claims_are_deleted(tmp_path, monkeypatch):
    monkeypatch.setattr("spark_tasks.connectors.parquet.writer.KEPT_S", -1)
    writer = writer_of(tmp_path)
    writer.commit([write(writer, records(0, 4))])
    assert ids(tmp_path) == [0, 1, 2, 3]
    assert list(tmp_path.glob(".*")) == []


def test_files_are_rotated_by_records(tmp_path):
    writer = writer_of(tmp_path, rotate_records="4")
    writer.commit([write(writer, records(0, 10), records(10, 3))])
    assert [(r.first, r.last) for r in present(str(tmp_path), "t-x", 2)] == [(0, 3), (4, 7), (8, 9), (10, 12)]
    assert ids(tmp_path) == list(range(13))


UNNESTING = SinkPipeline(worker(), {
    "value.converter": JSON, "value.converter.schemas.enable": "false", "transforms": "q", "transforms.q.type": "Sql",
    "transforms.q.query": "SELECT unnest(items) AS id FROM records"})  # fmt: skip


def unnested(*items):
    texts = [json.dumps({"items": some}).encode() for some in items]
    return list(UNNESTING.to_connect_batches("t", 0, raw_batch(texts)))


@pytest.mark.parametrize(("limit", "ranges"), [
    ("1", [(0, 0), (1, 1), (2, 2), (3, 3)]), ("2", [(0, 0), (1, 2), (3, 3)]), ("3", [(0, 0), (1, 3)]),
    ("5", [(0, 2), (3, 3)]), ("0", [(0, 3)]),
])  # fmt: skip
@pytest.mark.parametrize("option", ["rotate_records", "rotate_bytes"])
def test_all_rows_of_an_offset_are_in_one_file(tmp_path, limit, ranges, option):
    """Files with the same offsets replaced one another."""
    writer = writer_of(tmp_path, **{option: limit})
    batches = unnested([1, 2, 3], [4], [5], [6])
    writer.commit([write(writer, *batches)])
    assert ids(tmp_path) == [1, 2, 3, 4, 5, 6]
    if option == "rotate_records":
        assert [(held.first, held.last) for held in present(str(tmp_path), "t", 0)] == ranges
    batches = [batch.slice(row, 1) for batch in batches for row in range(len(batch))]
    writer = writer_of(tmp_path / "rows", **{option: limit})
    writer.commit([write(writer, *batches)])
    assert ids(tmp_path / "rows") == [1, 2, 3, 4, 5, 6]


def test_an_offset_whose_rows_have_different_columns_is_refused(tmp_path):
    writer = writer_of(tmp_path)
    (first,), (second,) = unnested([1]), unnested(["x"])
    with pytest.raises(ConnectError, match=r"^offset 0 of t-0 would be in two files: what the transforms make"):
        writer.commit([write(writer, first, second)])
    assert visible(tmp_path) == []


def test_files_are_rotated_by_bytes_and_time(tmp_path, monkeypatch):
    writer = writer_of(tmp_path, rotate_bytes="10")
    writer.commit([write(writer, records(0, 2), records(2, 2))])
    assert len(visible(tmp_path)) == 2
    moments = iter(range(0, 1000, 10))
    monkeypatch.setattr("spark_tasks.connectors.parquet.writer.time.monotonic", lambda: next(moments))
    timed = writer_of(tmp_path, rotate_ms="5000")
    timed.commit([timed.write(iter([records(10, 2), records(12, 2)]))])
    assert len(visible(tmp_path)) == 4


def test_new_columns_begin_a_new_file(tmp_path):
    writer = writer_of(tmp_path)
    writer.commit([write(writer, records(0, 2), records(2, 2, '{"id":%d,"new":1.5}'))])
    assert len(visible(tmp_path)) == 2
    assert ids(tmp_path) == [0, 1, 2, 3]


def test_values_that_parquet_cannot_represent_are_written_as_json(tmp_path):
    writer = writer_of(tmp_path, kafka_columns="true")
    texts = [b'{"id":1,"n":1,"e":{},"m":1}', b'{"id":2,"n":2.5,"e":{},"m":"x"}', None]
    writer.commit([write(writer, converted(PIPELINE, "t", 0, raw_batch(texts)))])
    rows = pq.read_table(tmp_path / visible(tmp_path)[0]).to_pylist()
    assert [(r["_topic"], r["_partition"], r["_offset"]) for r in rows] == [("t", 0, 0), ("t", 0, 1), ("t", 0, 2)]
    assert [(r["id"], r["n"], r["e"], r["m"]) for r in rows] == [
        (1, 1.0, "{}", "1"),
        (2, 2.5, "{}", '"x"'),
        (None,) * 4,
    ]


def test_a_field_does_not_replace_a_column_of_kafka(tmp_path):
    """The positions were lost."""
    batch = converted(PIPELINE, "t", 0, raw_batch([b'{"_offset":"x"}']))
    with pytest.raises(DataError, match=r"^the records have a field _offset, as a column of kafka.columns: rename it "):
        write(writer_of(tmp_path, kafka_columns="true"), batch)
    assert list(tmp_path.iterdir()) == []
    writer = writer_of(tmp_path)
    writer.commit([write(writer, batch)])
    assert pq.read_table(tmp_path / visible(tmp_path)[0]).to_pylist() == [{"_offset": "x"}]


@pytest.mark.parametrize(("schema", "payload", "stored"), [
    ({"type": "map", "keys": {"type": "string"}, "values": {"type": "struct", "fields": []}}, {"a": {}}, '{"a":{}}'),
    ({"type": "array", "items": {"type": "map", "keys": {"type": "string"}, "values": {
        "type": "struct", "fields": []}}}, [{"a": {}}], '[{"a":{}}]'),
    ({"type": "bytes", "name": DECIMAL, "version": 1, "parameters": {"scale": "-2"}}, "AQ==", Decimal(100)),
    ({"type": "bytes", "name": DECIMAL, "version": 1, "parameters": {"scale": "-20"}}, "Ag==", Decimal("2E20")),
    ({"type": "bytes", "name": DECIMAL, "version": 1, "parameters": {"scale": "60"}}, "Aw==", Decimal("3E-60")),
    ({"type": "array", "items": {"type": "bytes", "name": DECIMAL, "version": 1, "parameters": {"scale": "-2"}}},
     ["AQ==", "Ag=="], [Decimal(100), Decimal(200)]),
])  # fmt: skip
def test_types_that_parquet_refuses_are_written_in_another_form(tmp_path, schema, payload, stored):
    """Each of them failed the task."""
    text = json.dumps({"schema": {"type": "struct", "fields": [{**schema, "field": "x"}]}, "payload": {"x": payload}})
    batch = converted(SinkPipeline(worker(), {"value.converter": JSON}), "t", 0, raw_batch([text.encode()]))
    writer = writer_of(tmp_path)
    writer.commit([write(writer, batch)])
    assert pq.read_table(tmp_path / visible(tmp_path)[0]).to_pylist() == [{"x": stored}]


def test_values_that_are_not_structs_become_a_value_column(tmp_path):
    writer = writer_of(tmp_path)
    writer.commit([write(writer, converted(PIPELINE, "t", 0, raw_batch([b"1", b"2"])))])
    assert pq.read_table(tmp_path / visible(tmp_path)[0]).to_pydict() == {"value": [1, 2]}


def test_a_failed_write_leaves_nothing(tmp_path):
    def broken():
        yield records(0, 2)
        raise ValueError("kafka is gone")

    with pytest.raises(ValueError, match="gone"):
        writer_of(tmp_path, rotate_records="1").write(broken())
    assert list(tmp_path.iterdir()) == []


def test_a_type_that_parquet_does_not_support_leaves_nothing(tmp_path):
    batch = records(0, 1)
    durations = pa.array([[(1, 2, 3)]], pa.list_(pa.month_day_nano_interval()))
    with pytest.raises(pa.ArrowNotImplementedError, match="Unhandled type"):
        writer_of(tmp_path).write(iter([batch.set_column(batch.schema.get_field_index("value"), "value", durations)]))
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_created(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ConnectError, match=r"^path: cannot create the folder /.*/file: File exists$"):
        write(writer_of(tmp_path / "file"), records(0, 1))


def test_a_crash_between_renames_leaves_no_gap(tmp_path):
    writer = writer_of(tmp_path, rotate_records="2")
    late, early = write(writer, records(4, 2)), write(writer, records(0, 4))
    paths = [path for path, _ in early.files]
    (tmp_path / paths[1]).unlink()
    with pytest.raises(FileNotFoundError):
        writer.commit([late, early])
    assert writer.resume_from("t-x", 2) == 2


@given(st.text(alphabet="ab-_.0", min_size=1, max_size=6), st.integers(0, 99), st.integers(0, 2**60), st.integers(0, 9))
def test_file_names_round_trip_their_offset_range(topic, partition, first, more):
    held = OffsetRange(topic, partition, first, first + more)
    assert parse(held.name) == held
    assert parse("." + held.name + ".tmp") is None
