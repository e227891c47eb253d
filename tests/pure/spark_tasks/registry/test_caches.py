"""What is known about schemas, and unknown ones, needs few requests."""

from functools import lru_cache

import pyarrow as pa
import pytest

from spark_tasks.data.columns import SCHEMA_KEY, in_order
from spark_tasks.errors import RetriableError
from spark_tasks.pipeline.converters import registered
from spark_tasks.pipeline.converters.avro.converter import AvroConverter
from spark_tasks.pipeline.sink_pipeline import SinkPipeline
from spark_tasks.registry.caches import with_failures
from spark_tasks.registry.errors import UnknownSchemaError, UnusableSchemaError
from spark_tasks.registry.wire import framed
from tests.rigs.guid_registry import guid_registry
from tests.rigs.raw_records import raw_batch, worker
from tests.rigs.support import wait_until

AVRO = "io.confluent.connect.avro.AvroConverter"
FAST = {"max.retries": "0", "retries.wait.ms": "0"}


@pytest.fixture
def registry():
    with guid_registry() as running:
        yield running


def schemas(registry, *texts):
    registry.schemas += [{"schema": text} for text in texts]


def pipeline(registry, **more):
    config = {"schema.registry.url": registry.url, **FAST, **more}
    return SinkPipeline(worker(), {"value.converter": AVRO, **{f"value.converter.{k}": v for k, v in config.items()}})


def records(*schema_ids):
    [payload] = framed(0, pa.array([b"\4"])).to_pylist()
    return raw_batch([payload[:1] + number.to_bytes(4, "big") + payload[5:] for number in schema_ids])


def converted(sink, raw):
    refused = []
    batches = list(in_order(sink.to_connect_by_schema("t", 0, raw, refused.append)))
    return {number for batch in batches for number in batch.column("offset").to_pylist()}, refused


def test_unknown_schemas_cost_a_request_each_and_their_records_only_themselves(registry, monkeypatch):
    schemas(registry, '"int"', '"long"')
    read = []
    reader = registered.RegisteredConverter.to_connect

    def counted(self, topic, array, headers=None):
        read.append(len(array))
        return reader(self, topic, array, headers)

    monkeypatch.setattr(registered.RegisteredConverter, "to_connect", counted)
    unknown = range(100, 120)
    sink = pipeline(registry)
    raw = records(1, 2, *unknown, *unknown, 1, 2)
    good, refused = converted(sink, raw)
    assert good == {0, 1, 42, 43}
    assert [failed.row for failed in refused] == list(range(2, 42))
    assert {type(failed.error) for failed in refused} == {UnknownSchemaError}
    assert sorted(registry.ids_asked()) == [1, 2, *unknown]
    assert sum(read) < 5 * len(raw), "the good records were converted again for each unknown schema"
    assert converted(sink, raw)[0] == good
    assert len(registry.ids_asked()) == 22, "they are unknown for a moment"
    schemas(registry, *['"int"'] * 200)
    wait_until(lambda: len(converted(sink, raw)[0]) == 44, 10, "the schemas that have been registered since")


def test_bad_records_of_several_schemas_and_stages_are_all_found(registry):
    schemas(registry, '"int"', '"long"')
    sink = SinkPipeline(worker(), {
        "value.converter": AVRO, "key.converter": AVRO, **{
            f"{part}.converter.{key}": value for part in ("key", "value")
            for key, value in {"schema.registry.url": registry.url, **FAST}.items()}})
    raw = records(1, 90, 2, 1, 91, 2)
    keys = [None, None, b"no magic byte", None, None, *records(92).column("value").to_pylist()]
    column = raw.schema.get_field_index("key")
    good, refused = converted(sink, raw.set_column(column, "key", pa.array(keys, pa.binary())))
    assert good == {0, 3}
    assert [(failed.row, failed.stage.value) for failed in refused] == [
        (1, "VALUE_CONVERTER"), (2, "KEY_CONVERTER"), (4, "VALUE_CONVERTER"), (5, "KEY_CONVERTER")]


def test_an_unusable_schema_is_not_read_again_for_each_batch(registry, monkeypatch):
    schemas(registry, '{"type":"nonsense"}')
    read = []
    reader = AvroConverter.reader
    monkeypatch.setattr(AvroConverter, "reader", lambda self, *given: read.append(1) or reader(self, *given))
    sink = pipeline(registry)
    for _ in range(3):
        good, [failed] = converted(sink, records(1))
        assert (good, type(failed.error)) == (set(), UnusableSchemaError)
    assert len(read) == 1


def test_the_latest_schema_is_known_while_the_registry_is_away(registry):
    schemas(registry, '"int"')
    registry.subjects["t-value"] = [1]
    converter = AvroConverter()
    converter.configure({"schema.registry.url": registry.url, "auto.register.schemas": "false", **FAST,
                         "use.latest.version": "true", "retries.wait.ms": "60000", "retries.max.wait.ms": "60000"},
                        is_key=False)
    given = pa.array([2], pa.int32()), {SCHEMA_KEY: b'{"type":"int32"}'}
    written = converter.from_connect("t", *given)
    registry.answer = lambda *_: {"id": "not a number"}
    with pytest.raises(RetriableError):
        converter.from_connect("other", *given)
    assert converter.from_connect("t", *given) == written
    with pytest.raises(RetriableError, match="the next attempt is in"):
        converter.from_connect("other", *given)


def test_the_client_does_not_keep_all_schemas(registry):
    """It has no limit of its own."""
    schemas(registry, *['"int"'] * 40)
    sink = pipeline(registry, **{"max.schemas.per.subject": "10"})
    assert len(converted(sink, records(*range(1, 41)))[0]) == 40
    fresh = pipeline(registry, **{"max.schemas.per.subject": "10", "schemas.cache.config": "5"})
    converted(fresh, records(1))
    assert registry.ids_asked()[-1] == 1, "neither heeler nor the client has it"


def test_a_subject_without_a_latest_schema_is_not_looked_up_for_each_batch(registry):
    schemas(registry, '"int"', '"long"')
    sink = pipeline(registry, **{"use.latest.version": "true", "auto.register.schemas": "false"})
    good, refused = converted(sink, records(1, 2, 1))
    assert not good
    assert len(refused) == 3
    asked = [path for path in registry.requests if path.endswith("/latest")]
    assert len(asked) == 1
    converted(sink, records(2, 1, 2))
    assert [path for path in registry.requests if path.endswith("/latest")] == asked, "it is missing for a moment"


def test_results_and_failures_are_kept():
    calls = []

    def function(number):
        calls.append(number)
        if number < 0:
            raise UnknownSchemaError(f"no {number}")
        if number == 0:
            raise RetriableError("not now")
        return number

    kept = with_failures(lru_cache(10)(function), 10, UnknownSchemaError, 0.2)
    for _ in range(3):
        assert kept(1) == 1
        with pytest.raises(UnknownSchemaError, match="no -1"):
            kept(-1)
        with pytest.raises(RetriableError):
            kept(0)
    assert calls == [1, -1, 0, 0, 0]

    def again():
        with pytest.raises(UnknownSchemaError):
            kept(-1)
        return calls.count(-1) == 2

    wait_until(again, 5, "the end of the failure's time")
