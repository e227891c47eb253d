"""Records pass unchanged through connectors and converters in a real worker."""

from __future__ import annotations

import json
import shutil
from datetime import datetime

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spark_tasks.connectors.verify import read_summary
from tests.rigs.support import wait_until
from tests.rigs.workers import JSON, STRING

pytestmark = pytest.mark.integration

RUNNING = "RUNNING"
LINES = ["plain", "", "ä€😀", '"quoted" \\ back', "tab\there", "x" * 10_000, "null", "12"]


def converters(converter, schemas=True):
    settings = {f"{side}.converter": converter for side in ("key", "value")}
    if converter == JSON:
        settings |= {f"{side}.converter.schemas.enable": str(schemas).lower() for side in ("key", "value")}
    return settings


@pytest.mark.parametrize(("converter", "schemas"), [(STRING, True), (JSON, True), (JSON, False)])
def test_lines_survive_every_converter(rig, topic_name, converter, schemas):
    into, out = rig.folder / "in.txt", rig.folder / "out.txt"
    into.write_text("\n".join(LINES) + "\n")
    own = converters(converter, schemas)
    source = {"connector.class": "FileStreamSource", "file": str(into), "topic": topic_name, **own}
    rig.create(f"{topic_name}-in", source)
    rig.wait_records(topic_name, len(LINES))
    written = rig.kafka.values(topic_name)
    if converter == JSON:
        written = [json.loads(value) for value in written]
    schema = {"type": "string", "optional": False}
    with_schema = converter == JSON and schemas
    assert written == [{"schema": schema, "payload": line} if with_schema else line for line in LINES]
    sink = {"connector.class": "FileStreamSink", "file": str(out), "topics": topic_name, **own}
    rig.create(f"{topic_name}-out", sink)
    rig.wait_lines(out, LINES)


def test_keys_and_headers_end_to_end(rig, topic_name):
    """Headers that no transform reads keep their bytes, including repeated keys and nulls."""
    rig.create(f"{topic_name}-in", {"connector.class": "LettersSource", "topic": topic_name})
    rig.wait_records(topic_name, 5)
    first, *others = rig.kafka.messages(topic_name)
    assert (first.key(), first.value(), first.headers()) == (b"key 0", b"value 0", None)
    for n, message in enumerate(others, 1):
        assert (message.key(), message.value()) == (f"key {n}".encode(), f"value {n}".encode())
        assert message.headers() == [("n", str(n).encode()), ("n", b"\xff"), ("none", None)]
        assert message.timestamp()[1] == 1_700_000_000_000 + n
    rig.kafka.send(topic_name, [None], ["gone"], headers={"why": b"tombstone"})
    out = rig.folder / "journal.jsonl"
    rig.create(f"{topic_name}-out", {"connector.class": "JournalSink", "topics": topic_name, "file": str(out)})
    wait_until(lambda: out.exists() and out.read_text().count("\n") == 6, 30, "6 records")
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    assert [r["offset"] for r in rows] == list(range(6))
    assert [(r["topic"], r["partition"], r["key"], r["value"]) for r in rows[:2]] == [
        (topic_name, 0, "key 0", "value 0"), (topic_name, 0, "key 1", "value 1")]
    assert rows[1]["headers"] == [{"key": "n", "value": str(b"1")},
                                  {"key": "n", "value": str(b"\xff")}, {"key": "none", "value": None}]
    assert (rows[5]["key"], rows[5]["value"], rows[5]["headers"][0]["key"]) == ("gone", None, "why")


def test_numbers_arrive_once_and_in_order(rig, topic_name):
    rig.kafka.create(topic_name, 3)
    own = converters(JSON, schemas=False)
    rig.create(f"{topic_name}-in", {"connector.class": "datagen", "tasks.max": "2", "topic": topic_name, "streams": "4",
                                    "records": "30000", **own})
    rig.create(f"{topic_name}-out", {"connector.class": "verify", "tasks.max": "2", "topics": topic_name,
                                     "path": str(rig.folder / "sums"), **own}, [RUNNING] * 3)
    wait_until(lambda: read_summary(rig.folder / "sums").to_json()["records"] >= 120_000, 60, "all records")
    found = read_summary(rig.folder / "sums").to_json()
    assert [found[word] for word in ("records", "duplicates", "disorder", "missing")] == [120_000, 0, 0, 0]
    assert [s["highest"] for s in found["streams"].values()] == [29_999] * 4


def wait_rows(rig, folder, rows):
    def there():
        files = sorted(folder.glob("*.parquet"))
        assert sum(pq.read_metadata(file).num_rows for file in files) == rows
        return pa.concat_tables([pq.read_table(file) for file in files], promote_options="default")

    return wait_until(there, 30, f"{rows} rows in {folder}")


def test_files_are_copied_to_parquet(rig, topic_name):
    """CSV, JSON lines and Parquet; a folder and a file that are created later; an incomplete line."""
    folder, out = rig.folder / "files", rig.folder / "parquet"
    own = converters(JSON)
    rig.create(f"{topic_name}-in", {"connector.class": "files", "path": str(folder), "topic": topic_name, **own})
    missing = f"WARN [{topic_name}-in|task-0] Folder {folder} does not exist (yet)"
    wait_until(lambda: missing in rig.process.log.read_text(), what="a warning")
    folder.mkdir()
    (folder / "a.csv").write_text('id,name,at\n1,"comma, quoted",2024-01-02 03:04:05\n2,NA,2024-01-02 03:04:06\n')
    rig.create(f"{topic_name}-out", {"connector.class": "parquet", "topics": topic_name, "path": str(out), **own})
    table = wait_rows(rig, out, 2)
    assert table.schema.field("id").type == pa.int64()
    assert table.to_pylist() == [
        {"id": 1, "name": "comma, quoted", "at": datetime.fromisoformat("2024-01-02T03:04:05+00:00")},
        {"id": 2, "name": None, "at": datetime.fromisoformat("2024-01-02T03:04:06+00:00")},
    ]
    lines = folder / "b.jsonl"
    lines.write_text('{"id": 3, "name": "three"}\n{"id": 4, "na')
    wait_rows(rig, out, 3)
    with lines.open("a") as file:
        file.write('me": "four"}\n')
    wait_rows(rig, out, 4)
    pq.write_table(pa.table({"id": [5, 6], "name": ["five", None]}), rig.folder / "c.parquet")
    shutil.move(rig.folder / "c.parquet", folder / "c.parquet")
    wait_rows(rig, out, 6)
    tables = [pq.read_table(file, columns=["id"]) for file in sorted(out.glob("*.parquet"))]
    assert [row["id"] for table in tables for row in table.to_pylist()] == [1, 2, 3, 4, 5, 6]
    offsets = rig.call("GET", f"/connectors/{topic_name}-in/offsets")["offsets"]
    positions = {o["partition"]["filename"].rpartition("/")[2]: o["offset"]["position"] for o in offsets}
    assert positions["a.csv"] == (folder / "a.csv").stat().st_size
    assert positions["b.jsonl"] == lines.stat().st_size
    assert not list(out.glob(".*.tmp"))


def test_any_pyspark_data_source_can_be_a_source_connector(rig, topic_name):
    """The data source is named only by the path of its class."""
    own = converters(JSON, schemas=False)
    rig.create(f"{topic_name}-in", {
        "connector.class": "pyspark-source", "format": "journal:CountdownData", "option.count": "3",
        "topic": topic_name, **own})
    rig.wait_records(topic_name, 6)
    found = [json.loads(value) for value in rig.kafka.values(topic_name)]
    assert sorted((r["part"], -r["n"]) for r in found) == [(p, -n) for p in (0, 1) for n in (3, 2, 1)]
    out = rig.folder / "out.jsonl"
    rig.create(f"{topic_name}-out", {
        "connector.class": "pyspark-sink", "format": "journal:CountdownData", "option.file": str(out),
        "topics": topic_name, **own})
    wait_until(lambda: out.exists() and out.read_text().count("\n") == 6, 30, "6 rows")
    assert {(json.loads(line)["n"], json.loads(line)["part"]) for line in out.read_text().splitlines()} == {
        (n, p) for n in (1, 2, 3) for p in (0, 1)}


@pytest.mark.parametrize("policy", ["earliest", "latest"])
def test_a_sink_whose_committed_offset_was_deleted_follows_the_reset_policy(rig, topic_name, policy):
    """If the committed offset is not in the log, auto.offset.reset determines where the task continues."""
    kafka, out = rig.kafka, rig.folder / "out.txt"
    kafka.create(topic_name)
    kafka.send(topic_name, ["0", "1"])
    config = {"connector.class": "FileStreamSink", "file": str(out), "topics": topic_name,
              "consumer.override.auto.offset.reset": "earliest"}
    rig.create(topic_name, config)
    rig.wait_lines(out, ["0", "1"])
    wait_until(lambda: kafka.committed(f"connect-{topic_name}") == {(topic_name, 0): 2}, 30, "the committed offset")
    rig.call("PUT", f"/connectors/{topic_name}/stop")
    rig.wait_states(topic_name, ["STOPPED"])
    kafka.send(topic_name, ["2", "3", "4", "5", "6"])
    kafka.delete_before(topic_name, 5)
    out.unlink()
    rig.create(topic_name, {**config, "consumer.override.auto.offset.reset": policy})
    rig.call("PUT", f"/connectors/{topic_name}/resume")
    rig.wait_states(topic_name, [RUNNING, RUNNING])
    sent = 7

    def arrived():
        nonlocal sent
        kafka.send(topic_name, [str(sent)])
        sent += 1
        return out.exists() and out.read_text()

    wait_until(arrived, 30, "a line")
    lines = out.read_text().splitlines()
    first = int(lines[0])
    assert first == 5 if policy == "earliest" else first >= 7
    rig.wait_lines(out, [str(n) for n in range(first, sent)])
