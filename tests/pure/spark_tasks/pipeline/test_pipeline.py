import json
import pickle
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime

import pyarrow as pa
import pytest

from spark_tasks.data.columns import CONNECT_COLUMNS, HEADERS_TYPE, RAW_SCHEMA, SCHEMA_KEY, in_order
from spark_tasks.errors import ConfigError, DataError, ToleranceExceededError
from spark_tasks.pipeline.converters import primitive
from spark_tasks.pipeline.converters.base import BadRowError, BadRowsError
from spark_tasks.pipeline.converters.json import JsonConverter
from spark_tasks.pipeline.sink_pipeline import SinkPipeline
from spark_tasks.pipeline.source_pipeline import SourcePipeline
from spark_tasks.pipeline.transforms.timestamp_router import TimestampRouter
from spark_tasks.plugins import PluginNotFoundError
from tests.rigs.raw_records import CONNECT, JSON, STRING, converted, raw_batch, worker
from tests.rigs.support import wait_until

SCHEMALESS = {"value.converter": JSON, "value.converter.schemas.enable": "false"}
CAST = "org.apache.kafka.connect.transforms.Cast$Value"


def test_a_sink_batch_has_the_connect_columns():
    headers = [[("h", b"1")], None]
    raw = raw_batch([b"x", None], offset=7, keys=[b"k", None], headers=headers)
    batch = converted(SinkPipeline(worker(), {}), "t", 4, raw)
    assert tuple(batch.schema.names) == CONNECT_COLUMNS
    assert batch.column("topic").to_pylist() == ["t", "t"]
    assert batch.column("partition").to_pylist() == [4, 4]
    assert batch.column("offset").to_pylist() == [7, 8]
    assert batch.column("key").to_pylist() == ["k", None]
    assert batch.column("value").to_pylist() == ["x", None]
    assert batch.column("headers").type == HEADERS_TYPE
    assert batch.column("headers")[0].as_py() == [{"key": "h", "value": b"1"}]


def test_a_record_without_a_timestamp_has_a_null_timestamp():
    """Kafka's -1 is Java's null: for plugins, and for transforms."""
    raw = raw_batch([b"x", b"y"], timestamp=-1)
    assert converted(SinkPipeline(worker(), {}), "t", 4, raw).column("timestamp").to_pylist() == [None, None]
    router = {"transforms": "r", "transforms.r.type": "org.apache.kafka.connect.transforms.TimestampRouter"}
    with pytest.raises(DataError, match="Timestamp missing on record"):
        converted(SinkPipeline(worker(), router), "t", 4, raw)


def test_only_pipelines_of_the_same_connector_are_the_same():
    """Tasks whose pipelines are the same share splits, which count as one connector's."""
    one, again, other = (SinkPipeline(worker(), {"name": name, **SCHEMALESS}).key for name in ("a", "a", "b"))
    assert one == again != other


def test_the_first_bad_record_is_named():
    raw = raw_batch([b"{}", b"5", b"{oops", b"nope"], offset=40)
    with pytest.raises(
        DataError, match=r"value of record logs-3, offset 42 cannot be read by JsonConverter: .*position 1"
    ):
        converted(SinkPipeline(worker(), SCHEMALESS), "logs", 3, raw)


def test_bad_records_are_reported_and_the_others_stay_one_batch():
    """The records before and after a bad one have different keys, and still become one column."""
    values = [b'{"a":1}', b"{oops", b'{"b":2}', b"nope", b'{"a":3}']
    raw = raw_batch(values, offset=40, keys=[b"k", None, None, b"", b"k"])
    refused = []
    [batch] = in_order(SinkPipeline(worker(), SCHEMALESS).to_connect_by_schema("logs", 3, raw, refused.append))
    assert batch.column("offset").to_pylist() == [40, 42, 44]
    assert [f.row for f in refused] == [1, 3]
    assert {(f.stage.value, f.class_name) for f in refused} == {("VALUE_CONVERTER", JSON)}
    assert refused[0].message == "Converting byte[] to Kafka Connect data failed due to serialization error: "
    assert "position 1" in str(refused[0].error)


def test_records_with_bad_headers_or_keys_are_skipped():
    config = {**SCHEMALESS, "header.converter": JSON, "key.converter": JSON}
    raw = raw_batch([b"1", b"2", b"3"], keys=[b"{", None, None], headers=[[("h", b"{")], None, [("h", b"{")]])
    refused = []
    [batch] = in_order(SinkPipeline(worker(), config).to_connect_by_schema("t", 0, raw, refused.append))
    assert batch.column("value").to_pylist() == [2]
    assert [(f.row, f.stage.value) for f in refused] == [(0, "KEY_CONVERTER"), (2, "HEADER_CONVERTER")]


def test_bad_records_are_located_after_dropped_ones():
    config = {
        **SCHEMALESS, "transforms": "drop,cast", "transforms.drop.type": "Filter", "transforms.drop.predicate": "dead",
        "predicates": "dead", "predicates.dead.type": "RecordIsTombstone", "transforms.cast.type": CAST,
        "transforms.cast.spec": "int32",
    }  # fmt: skip
    raw = raw_batch([None, b'"1"', b'"x"', None, b'"2"', b'"y"'], offset=10)
    refused = []
    batches = list(in_order(SinkPipeline(worker(), config).to_connect_by_schema("t", 0, raw, refused.append)))
    assert [v for batch in batches for v in batch.column("value").to_pylist()] == [1, 2]
    assert [f.row for f in refused] == [2, 5]
    assert refused[0].described.startswith("transforms.cast (org.apache.kafka.connect.transforms.Cast$Value) cannot "
                                           "transform record t-0, offset 12: ")


def test_the_original_of_a_source_record_is_text():
    config = {**SCHEMALESS, "topic": "out", "value.converter": "org.apache.kafka.connect.converters.LongConverter"}
    pipeline = SourcePipeline(worker(), config)
    batch = pa.RecordBatch.from_pydict({"key": ["k", "l"], "value": ["text", "more"], "timestamp": [5, 6]})
    topic, _, raw = pipeline.original(batch, 1)
    assert (topic, raw.column("key").to_pylist(), raw.column("value").to_pylist()) == ("out", [b"l"], [b"more"])
    assert raw.column("timestamp").to_pylist() == [6]


@pytest.mark.parametrize(("value", "shown"), [
    (pa.array([{"d": 10**9}], pa.struct({"d": pa.date32()})), "1000000000"),
    (pa.array([{"at": 10**17}], pa.struct({"at": pa.timestamp("ms")})), "100000000000000000"),
    (pa.array([{"at": 5}], pa.struct({"at": pa.timestamp("ms", "Mars/Olympus")})), "1970-01-01 00:00:00.005"),
    (pa.StructArray.from_arrays([pa.array([7]), pa.array([8])], ["a", "a"]), "7"),
    (pa.array([2**62], pa.duration("s")), str(2**62)),
], ids=lambda value: str(getattr(value, "type", value)))  # fmt: skip
def test_a_bad_record_that_python_cannot_show_is_skipped_too(value, shown):
    """Its dead letter could not be written, which failed the task."""
    config = {"topic": "t", "value.converter": CONNECT + "converters.ByteArrayConverter"}
    pipeline, batch, refused = SourcePipeline(worker(), config), pa.record_batch({"value": value}), []
    assert list(pipeline.to_raw(batch, refused.append)) == []
    (failure,) = refused
    _, _, raw = pipeline.original(batch, failure.row)
    assert shown in raw["value"][0].as_py().decode()


def test_converter_settings_belong_to_the_level_of_their_converter():
    """The connector's properties belong to the connector's converter, the worker's to the worker's."""
    of_worker = worker(**{"value.converter": JSON, "value.converter.schemas.enable": "false"})
    assert converted(SinkPipeline(of_worker, {}), "t", 0, raw_batch([b"5"]))["value"].to_pylist() == [5]
    ignored = {"value.converter.schemas.enable": "true"}
    assert converted(SinkPipeline(of_worker, ignored), "t", 0, raw_batch([b"5"]))["value"].to_pylist() == [5]
    with pytest.raises(DataError, match="schema"):
        converted(SinkPipeline(of_worker, {"value.converter": JSON}), "t", 0, raw_batch([b"5"]))


def test_records_are_grouped_into_batches_by_schema():
    def record(kind, payload):
        return b'{"schema":{"type":"%s","optional":false},"payload":%s}' % (kind, payload)

    values = [record(b"int32", b"1"), record(b"int32", b"2"), record(b"string", b'"x"'), None, record(b"int32", b"3")]
    pipeline = SinkPipeline(worker(**{"value.converter": JSON}), {})
    batches = list(pipeline.to_connect_batches("t", 0, raw_batch(values)))
    assert [b.column("value").to_pylist() for b in batches] == [[1, 2], ["x", None], [3]]
    assert [b.column("offset").to_pylist() for b in batches] == [[0, 1], [2, 3], [4]]


def test_a_pipeline_can_be_pickled():
    pipeline = pickle.loads(pickle.dumps(SinkPipeline(worker(), SCHEMALESS)))
    assert converted(pipeline, "t", 0, raw_batch([b"1"]))["value"].to_pylist() == [1]


def test_invalid_converter_settings_are_refused():
    with pytest.raises(PluginNotFoundError, match="Nope"):
        _ = SinkPipeline(worker(), {"value.converter": "Nope"}).stages
    with pytest.raises(ConfigError, match=r"key\.converter"):
        _ = SinkPipeline({"value.converter": STRING}, {}).stages
    with pytest.raises(ConfigError, match=r"decimal\.format"):
        _ = SinkPipeline(worker(), {"value.converter": JSON, "value.converter.decimal.format": "x"}).stages


def source_batch(**columns):
    return pa.RecordBatch.from_pydict(columns)


def test_source_records_are_grouped_by_topic_in_order():
    batch = source_batch(topic=["a", "b", "a"], value=["1", "2", "3"], partition=pa.array([0, None, 5], pa.int32()))
    found = list(SourcePipeline(worker(), {}).to_raw(batch))
    assert [(topic, raw.column("value").to_pylist()) for topic, _, raw in found] == [("a", [b"1", b"3"]), ("b", [b"2"])]
    assert found[0][1].to_pylist() == [0, 5]
    assert found[1][1] is None
    assert found[0][2].schema == RAW_SCHEMA


def test_a_record_with_two_faults_is_one_bad_record():
    refused = []
    batch = source_batch(topic=["a"] * 3, value=list("abc"), timestamp=pa.array([-5, 7, None], pa.int64()),
                         partition=pa.array([2**40, 0, 2**41]))
    [(_, _, raw)] = SourcePipeline(worker(), {}).to_raw(batch, refused.append)
    assert raw.column("value").to_pylist() == [b"b"]
    assert [(failure.row, failure.message) for failure in refused] == [
        (0, "Invalid record timestamp -5"), (2, f"Invalid record partition {2**41}: it must be an int32")]


DOUBLING = """
import pyarrow.compute as pc
from spark_tasks.pipeline.converters.json import JsonConverter

class Doubling(JsonConverter):
    def to_connect(self, topic, array, headers=None):
        column, metadata = super().to_connect(topic, array, headers)
        return pc.multiply(column, 2), metadata
"""


@pytest.mark.parametrize("values", [[b"1", b"2", b"3"], [b"1", b"{", b"3"]])
def test_a_converter_that_builds_on_another_one_also_converts_beside_bad_records(tmp_path, values):
    (tmp_path / "doubling.py").write_text(DOUBLING)
    own = {"plugin.path": str(tmp_path), "value.converter": "Doubling", "value.converter.schemas.enable": "false"}
    refused = []
    batches = in_order(SinkPipeline(worker(**own), {}).to_connect_by_schema("t", 0, raw_batch(values), refused.append))
    good = [int(value) for value in values if value != b"{"]
    assert [one for batch in batches for one in batch.column("value").to_pylist()] == [2 * one for one in good]
    assert len(refused) == 3 - len(good)


VAGUE = """
import pyarrow as pa
from spark_tasks.pipeline.converters.string import StringConverter

class Vague(StringConverter):
    def from_connect(self, topic, array, metadata=None):
        if "bad" in array.to_pylist():
            raise ValueError("one of them")
        return super().from_connect(topic, array, metadata)
"""


def test_records_without_a_partition_stay_between_those_that_have_one_if_others_are_bad(tmp_path):
    """The partitioner may choose the partition that the others have."""
    (tmp_path / "vague.py").write_text(VAGUE)
    values = [str(n) for n in range(300)]
    values[100] = values[200] = "bad"
    batch = source_batch(topic=["a"] * 300, value=values, partition=pa.array(
        [0 if n == 150 else None for n in range(300)], pa.int32()))
    refused = []
    found = list(SourcePipeline(worker(**{"plugin.path": str(tmp_path), "value.converter": "Vague"}), {}).to_raw(
        batch, refused.append))
    assert sorted(failure.row for failure in refused) == [100, 200]
    assert [int(value) for _, _, raw in found for value in raw.column("value").to_pylist()] == [
        n for n in range(300) if n not in (100, 200)]


def test_source_records_have_defaults():
    ((topic, partitions, raw),) = SourcePipeline(worker(), {"topic": "x"}).to_raw(source_batch(value=["v"]))
    assert (topic, partitions) == ("x", None)
    assert raw.column("key").to_pylist() == [None]
    assert raw.column("timestamp")[0].as_py() > 1_700_000_000_000
    assert list(SourcePipeline(worker(), {"topic": "x"}).to_raw(source_batch(value=pa.array([], pa.string())))) == []
    with pytest.raises(ConfigError, match="topic"):
        list(SourcePipeline(worker(), {}).to_raw(source_batch(value=["v"])))


SOUND = {"value": ["v"], "topic": ["t"], "partition": ["x"], "timestamp": [7], "headers": [[{"key": "k", "value": 1}]]}


@pytest.mark.parametrize(("columns", "taken"), [
    ({}, True), ({"offset": ["?"]}, True), ({"topic": pa.array(["t"]).dictionary_encode()}, True),
    ({"headers": pa.nulls(1)}, True), ({"valeu": ["v"]}, False), ({"topic": [None]}, False),
    ({"topic": [["t"]]}, False), ({"timestamp": ["today"]}, False), ({"partition": [[1]]}, False),
    ({"headers": ["a"]}, False),
])
def test_batches_that_are_no_records_are_known_before_they_are_written(columns, taken):
    batch = source_batch(**SOUND | columns)
    pipeline = SourcePipeline(worker(), {})
    assert pipeline.takes(batch) is taken
    refused = []
    if taken:
        assert list(pipeline.to_raw(batch, refused.append)) == []
        assert len(refused) == 1, "a bad record: its partition is not a number"
    else:
        with pytest.raises((DataError, pa.ArrowException)):
            list(pipeline.to_raw(batch, refused.append))


def test_what_records_need_depends_on_the_source():
    rows, twice = source_batch(n=[1]), pa.RecordBatch.from_arrays([pa.array(["v"])] * 2, ["value", "value"])
    topic = {"topic": "x"}
    assert SourcePipeline(worker(), topic, rows=True).takes(rows)
    assert not SourcePipeline(worker(), topic).takes(rows)
    assert not SourcePipeline(worker(), topic).takes(twice)
    assert SourcePipeline(worker(), topic).takes(source_batch(value=["v"]))
    assert not SourcePipeline(worker(), {}).takes(source_batch(value=["v"])), "no topic"


def test_timestamps_before_1970_are_refused_as_in_java():
    """-1 means none. (Java's ConnectUtils.checkAndConvertTimestamp.)"""
    times = pa.array([None, -1, 5, -2, -(2**63)], pa.int64())
    refused = []
    ((_, _, raw),) = SourcePipeline(worker(), {"topic": "x"}).to_raw(
        source_batch(value=list("abcde"), timestamp=times), refused.append)
    assert raw.column("value").to_pylist() == [b"a", b"b", b"c"]
    assert raw.column("timestamp")[2].as_py() == 5
    assert raw.column("timestamp")[1].as_py() > 1_700_000_000_000
    assert [(f.row, f.stage.value, f.error_class, f.message) for f in refused] == [
        (row, "KAFKA_PRODUCE", "org.apache.kafka.common.InvalidRecordException", f"Invalid record timestamp {at}")
        for row, at in ((3, -2), (4, -(2**63)))]
    days = pa.array([datetime(1969, 12, 31, tzinfo=UTC)], pa.timestamp("us"))
    with pytest.raises(ToleranceExceededError, match="Invalid record timestamp -86400000"):
        list(SourcePipeline(worker(), {"topic": "x"}).to_raw(source_batch(value=["v"], timestamp=days)))


@pytest.mark.parametrize(("given", "wrong"), [
    (pa.array([7, 2**31, None, -(2**31) - 1]), [(1, "2147483648"), (3, "-2147483649")]),
    (pa.array([7, 2**64 - 1, None, 8], pa.uint64()), [(1, "18446744073709551615")]),
    (pa.array(["7", "x", None, "8"]), [(1, "x")]),
    (pa.array([7.0, 1.5, None, 8.0]), [(1, "1.5")]),
])
def test_a_partition_that_is_no_int32_makes_a_bad_record(given, wrong):
    refused = []
    raws = list(SourcePipeline(worker(), {"topic": "x"}).to_raw(
        source_batch(value=list("abcd"), partition=given), refused.append))
    assert [(f.row, f.message) for f in refused] == [
        (row, f"Invalid record partition {shown}: it must be an int32") for row, shown in wrong]
    assert sum(len(raw) for _, _, raw in raws) == 4 - len(wrong)
    assert raws[0][1][0].as_py() == 7
    with pytest.raises(ToleranceExceededError, match="Invalid record partition"):
        list(SourcePipeline(worker(), {"topic": "x"}).to_raw(source_batch(value=list("abcd"), partition=given)))


@pytest.mark.parametrize(("column", "given", "shown"), [
    ("partition", pa.array([[1]], pa.list_(pa.int32())), "list<"), ("timestamp", pa.array(["today"]), "string"),
    ("timestamp", pa.array([[1]]), "list<"), ("headers", pa.array(["a"]), "string"),
    ("headers", pa.array([[("a", "b")]], pa.map_(pa.string(), pa.string())), "map<"),
    ("headers", pa.array([[{"name": "a"}]]), "list<"),
])  # fmt: skip
def test_columns_of_another_type_are_an_error(column, given, shown):
    with pytest.raises(DataError, match=f"the source's column {column} has the type {shown}.*; it must be "):
        list(SourcePipeline(worker(), {"topic": "x"}).to_raw(source_batch(value=["v"], **{column: given})))


def test_timestamp_router_supports_timestamps_before_1970():
    """The expected topics are those of Java 4.3.1."""
    router = TimestampRouter()
    router.configure({})
    times = [-1, -86_400_000, 0, -62_135_596_800_001]
    routed = router.apply(source_batch(topic=["top"] * 4, value=list("abcd"), timestamp=times))
    assert routed.column("topic").to_pylist() == [
        "top-19691231", "top-19691231", "top-19700101", "top-00010102"]
    with pytest.raises(BadRowError, match="Timestamp missing on record") as bad:
        router.apply(source_batch(topic=["top"] * 2, value=["a", "b"], timestamp=pa.array([-1, None], pa.int64())))
    assert bad.value.row == 1


@pytest.mark.parametrize(("converter", "value", "java"), [
    ("Long", "x", "Failed to serialize to long (was class java.lang.String): "),
    ("Short", True, "Failed to serialize to short (was class java.lang.Boolean): "),
    ("Boolean", "x", "BooleanConverter is not compatible with objects of type class java.lang.String"),
])
def test_headers_of_a_wrong_type_are_reported_as_by_java(converter, value, java):
    made = getattr(primitive, f"{converter}Converter")()
    with pytest.raises(DataError) as reported:
        made.from_connect_header("t", "h", None, value)
    assert reported.value.java_message == java


@pytest.mark.parametrize(("converter", "java"), [
    ("Long", "Failed to serialize to long (was class java.lang.String): "),
    ("Boolean", "BooleanConverter is not compatible with objects of type class java.lang.String"),
    ("ByteArray", "ByteArrayConverter is not compatible with objects of type class java.lang.String"),
])
def test_nulls_among_values_of_a_wrong_type_are_written(converter, java):
    made = getattr(primitive, f"{converter}Converter")()
    with pytest.raises(BadRowsError) as reported:
        made.from_connect("t", pa.array([None, "x", None, "y"]))
    assert [(row, error.java_message) for row, error in reported.value.bad] == [(1, java), (3, java)]
    assert made.from_connect("t", pa.array([None, None], pa.string())).to_pylist() == [None, None]


def test_rows_become_structs_with_a_schema():
    rows = source_batch(id=pa.array([1], pa.uint8()), name=pa.array(["x"], pa.large_string()))
    ((_, _, raw),) = SourcePipeline(worker(**{"value.converter": JSON}), {"topic": "x"}, rows=True).to_raw(rows)
    assert raw.column("value")[0].as_py() == (
        b'{"schema":{"type":"struct","fields":[{"type":"int16","optional":true,"field":"id"},'
        b'{"type":"string","optional":true,"field":"name"}],"optional":false},"payload":{"id":1,"name":"x"}}'
    )


def test_headers_of_a_source_are_converted():
    kind = pa.list_(pa.struct([("key", pa.string()), ("value", pa.int64())]))
    batch = source_batch(value=["v", "w"], headers=pa.array([[{"key": "n", "value": 5}], None], kind))
    ((_, _, raw),) = SourcePipeline(worker(), {"topic": "x"}).to_raw(batch)
    assert raw.column("headers").to_pylist() == [[{"key": "n", "value": b"5"}], None]


def test_a_value_that_the_converter_cannot_write_is_an_error():
    long = {"value.converter": CONNECT + "converters.LongConverter"}
    with pytest.raises(DataError, match="value of a record for topic x cannot be written by LongConverter"):
        list(SourcePipeline(worker(), {**long, "topic": "x"}).to_raw(source_batch(value=["v"])))


def test_null_for_a_required_value_is_refused():
    field = pa.field("value", pa.int64(), metadata={SCHEMA_KEY: b'{"type":"int64","optional":false}'})
    batch = pa.RecordBatch.from_arrays([pa.array([1, None], pa.int64())], schema=pa.schema([field]))
    with pytest.raises(DataError, match="null"):
        list(SourcePipeline(worker(**{"value.converter": JSON}), {"topic": "x"}).to_raw(batch))


def test_headers_are_converted_by_json_converter():
    converter = JsonConverter()
    converter.configure({"schemas.enable": "false"})
    assert converter.to_connect_header("t", "h", b'[1, "x"]') == (None, [1, "x"])
    assert converter.from_connect_header("t", "h", None, {"b": [1, "x"]}) == b'{"b":[1,"x"]}'


def test_headers_in_bytes_are_unchanged():
    """Whatever the plugin's schema says of nulls: bytes are what is on the wire."""
    kind = pa.list_(pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))
    headers = [[("a", b"1"), ("a", b"\xff"), ("b", None)], None]
    batch = pa.RecordBatch.from_pydict({"value": ["x", "y"], "headers": pa.array(headers, kind)})
    [(_, _, raw)] = SourcePipeline(worker(), {"topic": "t"}).to_raw(batch)
    assert raw.column("headers").type == HEADERS_TYPE
    assert [row and [tuple(h.values()) for h in row] for row in raw.column("headers").to_pylist()] == headers
    nameless = pa.RecordBatch.from_pydict({"value": ["x"], "headers": pa.array([[(None, b"1")]], kind)})
    with pytest.raises(DataError, match="no key"):
        list(SourcePipeline(worker(), {"topic": "t"}).to_raw(nameless))


def test_source_records_have_no_other_columns():
    """Those were lost, for example if a source of rows that has a column `value` does not declare itself as one."""
    batch = pa.RecordBatch.from_pydict({"id": [1], "value": ["x"], "tpoic": ["u"]})
    with pytest.raises(DataError, match=r'columns that records do not have: id, tpoic; .*, set yields = "rows"'):
        list(SourcePipeline(worker(), {"topic": "t"}).to_raw(batch))
    [(_, _, raw)] = SourcePipeline(worker(**{"value.converter": JSON}), {"topic": "t"}, rows=True).to_raw(batch)
    assert json.loads(raw.column("value")[0].as_py())["payload"] == {"id": 1, "value": "x", "tpoic": "u"}


def test_source_records_need_a_value_column():
    """Without this check, a source of rows that does not declare itself as one would write nulls."""
    with pytest.raises(DataError, match=r"no column value, only id, name"):
        list(SourcePipeline(worker(), {"topic": "t"}).to_raw(pa.RecordBatch.from_pydict({"id": [1], "name": ["x"]})))


SLOW = """
import time
from pathlib import Path
from spark_tasks.pipeline.converters.string import StringConverter

class Slow(StringConverter):
    def configure(self, configs, *, is_key=False):
        folder = Path(__file__).parent
        (folder / "hangs").touch()
        while not (folder / "release").exists():
            time.sleep(0.01)
        super().configure({}, is_key=is_key)
"""


def test_a_plugin_that_hangs_as_it_is_configured_delays_no_other_pipeline(tmp_path):
    (tmp_path / "slow.py").write_text(SLOW)
    slow, other = (SinkPipeline(worker(**{"plugin.path": str(tmp_path)}), {"name": name, "value.converter": converter})
                   for name, converter in (("slow", "Slow"), ("other", STRING)))
    with ThreadPoolExecutor() as threads:
        made = threads.submit(lambda: slow.stages)
        try:
            wait_until((tmp_path / "hangs").exists)
            assert threads.submit(lambda: other.stages).result(10).names["value"].endswith("StringConverter")
            assert not made.done()
        finally:
            (tmp_path / "release").touch()
        assert made.result(10).names["value"].endswith("Slow")
