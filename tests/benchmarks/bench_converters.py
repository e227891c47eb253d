"""Records per second and core of converters, transforms, pipelines and connectors, without Kafka and Spark.

Run: python -m tests.benchmarks.bench_converters. Records are JSON of 85 bytes, 65,536 a batch as the runners cut them.
The aims: several million records a second for texts, 1.2 million for JSON, 1.76 million lines for the file source.
"""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from itertools import count
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from spark_tasks.connectors.datagen import DatagenSourceConnector
from spark_tasks.connectors.file_stream.connectors import FileStreamSinkConnector, FileStreamSourceConnector
from spark_tasks.connectors.files.connector import FilesSourceConnector
from spark_tasks.connectors.lines import to_lines
from spark_tasks.connectors.parquet.connector import ParquetSinkConnector
from spark_tasks.data.columns import HEADERS_TYPE, RAW_SCHEMA, SCHEMA_KEY
from spark_tasks.pipeline.converters.avro.converter import AvroConverter
from spark_tasks.pipeline.converters.base import schema_of
from spark_tasks.pipeline.converters.protobuf.converter import ProtobufConverter
from spark_tasks.pipeline.converters.registered import Described, Read, Registered, Write
from spark_tasks.pipeline.sink_pipeline import SinkPipeline
from spark_tasks.pipeline.source_pipeline import SourcePipeline
from spark_tasks.registry.wire import framed, unframed
from tests.rigs.raw_records import converted

ROWS = 65_536
REPEATS = 7
CONNECT = "org.apache.kafka.connect."
STRING = CONNECT + "storage.StringConverter"
WORKER = {"key.converter": STRING, "value.converter": STRING}
JSON = {"value.converter": CONNECT + "json.JsonConverter", "value.converter.schemas.enable": "false"}
SCHEMA_JSON = {"value.converter": CONNECT + "json.JsonConverter"}
INSERT = {"type": CONNECT + "transforms.InsertField$Value", "static.field": "src", "static.value": "bench"}
REPLACE = CONNECT + "transforms.ReplaceField$Value"


def chain(**transforms: dict[str, str]) -> dict[str, str]:
    found = {"transforms": ",".join(transforms)}
    for alias, config in transforms.items():
        found |= {f"transforms.{alias}.{key}": value for key, value in config.items()}
    return found


SINK_CHAIN = chain(
    ins=INSERT, rep={"type": REPLACE, "exclude": "pad"},
    mask={"type": CONNECT + "transforms.MaskField$Value", "fields": "name"},
)  # fmt: skip
SOURCE_CHAIN = chain(
    hoist={"type": CONNECT + "transforms.HoistField$Value", "field": "line"}, ins=INSERT,
    rep={"type": REPLACE, "renames": "line:message"},
)  # fmt: skip


def record(i: int) -> dict[str, object]:
    pad = "xxxxxxxxxxxx"
    return {"id": i, "name": f"user-{i % 10007}", "amount": (i * 37 % 100000) / 100, "flag": i % 3 == 0, "pad": pad}


def raw_batch(values: list[bytes]) -> pa.RecordBatch:
    size = len(values)
    columns = [pa.array(np.arange(size)), pa.array(np.full(size, 1000)), pa.nulls(size, pa.binary())]
    return pa.record_batch([*columns, pa.array(values), pa.nulls(size, HEADERS_TYPE)], schema=RAW_SCHEMA)


PLAIN = raw_batch([json.dumps(record(i)).encode() for i in range(ROWS)])
MIXED = raw_batch([json.dumps({**record(i), "amount": i % 7 or 0.5}).encode() for i in range(ROWS)])
WITHOUT = [{k: v for k, v in record(i).items() if i % 5 or k != "name"} for i in range(ROWS)]
SHORT = raw_batch([json.dumps({"id": i, "name": f"user-{i % 10007}"}).encode() for i in range(ROWS)])
GAPS = raw_batch([json.dumps(one).encode() for one in WITHOUT])


def with_schema(raw: pa.RecordBatch) -> pa.RecordBatch:
    pipeline = SinkPipeline(WORKER, JSON)
    rows = pa.RecordBatch.from_struct_array(converted(pipeline, "t", 0, raw).column("value"))
    ((_, _, found),) = SourcePipeline(WORKER, {**SCHEMA_JSON, "topic": "t"}, rows=True).to_raw(rows)
    return found


def in_turn(first: pa.RecordBatch, second: pa.RecordBatch) -> pa.RecordBatch:
    """Every second record of each batch, one after the other."""
    rows = np.arange(len(first))
    both = pa.concat_batches([first, second]).take(pa.array(np.where(rows % 2, rows + len(first), rows)))
    return both.set_column(0, RAW_SCHEMA.field(0), pa.array(rows))


def rate(work: Callable[[], int]) -> float:
    """Median of millions of records a second of processor time; the first run, which compiles, is not counted."""
    work()
    speeds = []
    for _ in range(REPEATS):
        begin = time.process_time()
        rows = work()
        speeds.append(rows / (time.process_time() - begin) / 1e6)
    return statistics.median(speeds)


def show(name: str, work: Callable[[], int]) -> None:
    sys.stdout.write(f"{name:66} {rate(work):8.2f} M/s\n")
    sys.stdout.flush()


def sinks() -> None:
    schema = with_schema(PLAIN)
    cases = {
        "String": ({}, PLAIN),
        "JSON": (JSON, PLAIN),
        "JSON, one field of integers and doubles": (JSON, MIXED),
        "JSON, a field that is not always there": (JSON, GAPS),
        "JSON, three transforms": ({**JSON, **SINK_CHAIN}, PLAIN),
        f"JSON with schemas ({schema.nbytes // ROWS} bytes)": (SCHEMA_JSON, schema),
        "JSON with schemas, two schemas in turn": (SCHEMA_JSON, in_turn(schema, with_schema(SHORT))),
    }
    for name, (config, raw) in cases.items():
        pipeline = SinkPipeline(WORKER, config)

        def convert(pipeline: SinkPipeline = pipeline, raw: pa.RecordBatch = raw) -> int:
            return sum(map(len, pipeline.to_connect_batches("t", 0, raw)))

        def lines(pipeline: SinkPipeline = pipeline, raw: pa.RecordBatch = raw) -> int:
            batches = pipeline.to_connect_batches("t", 0, raw)
            for batch in batches:
                to_lines(batch.column("value"), batch.schema.field("value").metadata)
            return sum(map(len, batches))

        show(f"raw -> Connect: {name}", convert)
        show(f"raw -> Connect -> lines of text: {name}", lines)


def registered() -> None:
    """Converters with a registry, without the registry: ids, payloads and columns."""
    structs = converted(SinkPipeline(WORKER, SCHEMA_JSON), "t", 0, with_schema(PLAIN))
    values, metadata = structs.column("value"), dict(structs.schema.field("value").metadata or {})
    schema = schema_of(metadata)
    for converter in (AvroConverter(), ProtobufConverter()):
        converter.configure({"schema.registry.url": "http://127.0.0.1:1"}, is_key=False)
        described = converter.describe(schema)
        write = converter.writer(schema, described.text, given=False)
        read = converter.reader(Registered(described.text, {}), None, lambda _: 1)
        raw = framed(7, write(values, metadata), described.index)

        def encode(write: Write = write, described: Described = described) -> int:
            return len(framed(7, write(values, metadata), described.index))

        def decode(read: Read = read, raw: pa.Array = raw) -> int:
            found = unframed(raw, None, is_key=False)
            return len(read(found.payloads, found.skip)[0])

        show(f"Connect -> raw: {type(converter).__name__}, 5 fields", encode)
        show(f"raw -> Connect: {type(converter).__name__}, 5 fields", decode)


def sources() -> None:
    field = pa.field("value", pa.string(), metadata={SCHEMA_KEY: b'{"type":"string","optional":false}'})
    batch = pa.record_batch([PLAIN.column("value").cast(pa.string())], schema=pa.schema([field]))
    structs = converted(SinkPipeline(WORKER, JSON), "t", 0, PLAIN).select(["value"])
    cases = {
        "String": ({}, batch), "a text as JSON": (JSON, batch), "a map as JSON": (JSON, structs),
        "JSON, three transforms": ({**JSON, **SOURCE_CHAIN}, batch),
    }  # fmt: skip
    for name, (config, records) in cases.items():
        pipeline = SourcePipeline(WORKER, {**config, "topic": "t"})

        def convert(pipeline: SourcePipeline = pipeline, records: pa.RecordBatch = records) -> int:
            return sum(len(raw) for _, _, raw in pipeline.to_raw(records))

        show(f"Connect -> raw: {name}", convert)


def connectors(folder: Path) -> None:
    file = folder / "in.txt"
    file.write_bytes(b"\n".join(PLAIN.column("value").to_pylist() * 8) + b"\n")
    plain, jsonl = {"file": str(file), "topic": "t"}, {"path": str(file), "topic": "t", "format": "json"}
    data = folder / "rows.csv"
    rows = pa.RecordBatch.from_struct_array(converted(SinkPipeline(WORKER, JSON), "t", 0, PLAIN).column("value"))
    pa.csv.write_csv(pa.Table.from_batches([rows] * 4), data)
    table = {"path": str(data), "topic": "t"}
    for name, source in {
        "FileStreamSource": FileStreamSourceConnector.data_source(plain),
        "files source, JSON lines": FilesSourceConnector.data_source(jsonl),
        "files source, typed CSV": FilesSourceConnector.data_source(table),
        "datagen source": DatagenSourceConnector.data_source({"topic": "t", "records": "500000"}),
    }.items():
        reader = source.streamReader(None)
        start = reader.initialOffset()
        parts = reader.partitions(start, reader.latestOffset(start))
        show(f"{name}: read", lambda r=reader, p=parts: sum(len(b) for one in p for b in r.read(one)))

    text = [converted(SinkPipeline(WORKER, {}), "t", 0, PLAIN)] * 8
    lines = FileStreamSinkConnector.data_source({"file": str(folder / "out.txt")}).writer(None, overwrite=False)
    show("FileStreamSink: write texts", lambda: lines.write(iter(text)).rows)
    (folder / "out.txt").unlink()
    typed = converted(SinkPipeline(WORKER, JSON), "t", 0, PLAIN)
    parquet = ParquetSinkConnector.data_source({"path": str(folder / "parquet")}).writer(None, overwrite=False)
    offsets = count(0, ROWS)

    def write() -> int:
        shifted = pc.add(typed.column("offset"), next(offsets))
        parquet.commit([parquet.write(iter([typed.set_column(2, "offset", shifted)]))])
        return ROWS

    show("parquet sink: write and commit, 65,536 a file", write)


def main() -> None:
    """Print the table."""
    sinks()
    sources()
    registered()
    with tempfile.TemporaryDirectory() as folder:
        connectors(Path(folder))


if __name__ == "__main__":
    main()
