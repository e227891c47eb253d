"""What the converters with a schema registry have in common: with which schema records are written and read."""

import json

import pyarrow as pa
import pytest

from spark_tasks.data.columns import SCHEMA_KEY
from spark_tasks.data.schema import Field, Schema, Type, from_text, to_text
from spark_tasks.errors import ConfigError
from spark_tasks.pipeline.converters.avro.converter import AvroConverter
from spark_tasks.pipeline.converters.base import BadRowsError, MixedSchemasError
from spark_tasks.pipeline.converters.json_schema.converter import JsonSchemaConverter
from spark_tasks.pipeline.converters.protobuf import indexes
from spark_tasks.pipeline.converters.protobuf.converter import ProtobufConverter
from spark_tasks.registry.errors import UnknownSchemaError, UnusableSchemaError
from spark_tasks.registry.settings import RECORD_NAME, TOPIC_NAME, TOPIC_RECORD_NAME
from spark_tasks.registry.wire import framed
from tests.rigs.guid_registry import guid_registry

FAST = {"max.retries": "0", "retries.wait.ms": "0"}
CONVERTERS = {"AVRO": AvroConverter, "JSON": JsonSchemaConverter, "PROTOBUF": ProtobufConverter}
KINDS = pytest.mark.parametrize("kind", list(CONVERTERS))


@pytest.fixture
def registry():
    with guid_registry() as running:
        yield running


def made(kind, registry, **config):
    converter = CONVERTERS[kind]()
    converter.configure({"schema.registry.url": registry.url, **FAST, **config}, is_key=False)
    return converter


def register(registry, subject, kind, text, **properties):
    """Adds a version to the subject, with these properties in its metadata. Returns its id."""
    metadata = {"metadata": {"properties": properties}} if properties else {}
    registry.schemas.append({"schema": text, "schemaType": kind, **metadata})
    registry.subjects.setdefault(subject, []).append(len(registry.schemas))
    return len(registry.schemas)


def schema_text(kind, *fields):
    """A schema of records `R` with fields that are whole numbers of 64 bits."""
    if kind == "PROTOBUF":
        members = "".join(f"optional int64 {name} = {number};" for number, name in enumerate(fields, 1))
        return f'syntax = "proto3"; message R {{ {members} }}'
    if kind == "JSON":
        return json.dumps({"title": "R", "type": "object", "properties": {
            name: {"oneOf": [{"type": "null"}, {"type": "integer"}]} for name in fields}})
    return json.dumps({"type": "record", "name": "R", "fields": [
        {"name": name, "type": ["null", "long"], "default": None} for name in fields]})


def column(*names):
    """A record with these fields, which are 1."""
    number = Schema(Type.INT64, optional=True)
    schema = Schema(Type.STRUCT, name="R", fields=tuple(Field(name, number) for name in names))
    row = dict.fromkeys(names, 1)
    return pa.array([row], pa.struct([(name, pa.int64()) for name in names])), {SCHEMA_KEY: to_text(schema).encode()}


METADATA = "use.latest.with.metadata"
WORDS = {"auto.register.schemas": "false", METADATA: "application.version=v1"}


def versions(registry, kind):
    """Three versions of a subject; the second one is the last one of v1."""
    return [register(registry, "t-value", kind, schema_text(kind, *fields), **properties) for fields, properties in (
        (["a"], {"application.version": "v1", "team": "x"}),
        (["a", "b"], {"application.version": "v1", "team": "y"}),
        (["a", "b", "c"], {"application.version": "v2"}))]


@KINDS
def test_records_are_written_by_the_latest_schema_with_the_metadata(registry, kind):
    _, second, _ = versions(registry, kind)
    converter = made(kind, registry, **WORDS)
    [written] = converter.from_connect("t", *column("a", "b")).to_pylist()
    assert written[1:5] == second.to_bytes(4, "big")
    assert converter.to_connect("t", pa.array([written]))[0].to_pylist() == [{"a": 1, "b": 1}]


@KINDS
def test_records_are_read_as_those_of_the_latest_schema_with_the_metadata(registry, kind):
    """Also those that were written with a later one."""
    versions(registry, kind)
    writer = made(kind, registry)
    written = [writer.from_connect("other", *column(*names)).to_pylist()[0] for names in (["a"], ["a", "b", "c"])]
    reader = made(kind, registry, **WORDS)
    found = [reader.to_connect("t", pa.array([one]))[0].to_pylist() for one in written]
    assert found == [[{"a": 1, "b": None}], [{"a": 1, "b": 1}]]
    both = made(kind, registry, **{**WORDS, METADATA: "application.version=v1,team=x", "use.latest.version": "true"})
    assert [both.to_connect("t", pa.array([one]))[0].to_pylist() for one in written] == [[{"a": 1}], [{"a": 1}]]


@pytest.mark.parametrize(("config", "version"), [
    ({"auto.register.schemas": "true", "use.schema.id": "3"}, 4), ({"use.schema.id": "3"}, 3),
    ({"use.latest.version": "true"}, 2), ({"use.latest.version": "true", METADATA: ""}, 3),
])
def test_the_order_of_the_settings_that_choose_a_schema(registry, config, version):
    """As in Java: registration, use.schema.id, use.latest.with.metadata, use.latest.version."""
    versions(registry, "AVRO")
    found = made("AVRO", registry, **{**WORDS, "id.compatibility.strict": "false", **config}).from_connect(
        "t", *column("a", "b", "c", "d") if version == 4 else column("a", "b"))
    assert found[0].as_py()[1:5] == version.to_bytes(4, "big")


@KINDS
def test_a_schema_with_metadata_need_not_have_all_fields_of_the_records(registry, kind):
    """As in Java, latest.compatibility.strict concerns only use.latest.version."""
    versions(registry, kind)
    written = made(kind, registry, **WORDS).from_connect("t", *column("a", "z"))
    reader = made(kind, registry, **WORDS, **{"latest.compatibility.strict": "true"})
    assert reader.to_connect("t", written)[0].to_pylist() == [{"a": 1, "b": None}]


@pytest.mark.parametrize(("words", "name", "value"), [
    ("a/b=ü&=1", "a/b", "ü&=1"), ("'a=x,y'", "a", "x,y"), ("'a=it''s'", "a", "it's"), ("a=", "a", ""),
    ("a b= c,d=100%25", "a b", " c"),
])
def test_properties_may_have_any_characters(registry, words, name, value):
    """They have to arrive as they are; what has a comma is in single quotes."""
    schema_id = register(registry, "t-value", "AVRO", schema_text("AVRO", "a"), **{name: value, "d": "100%25"})
    register(registry, "t-value", "AVRO", schema_text("AVRO", "a", "b"))
    written = made("AVRO", registry, **{**WORDS, METADATA: words}).from_connect("t", *column("a"))
    assert written[0].as_py()[1:5] == schema_id.to_bytes(4, "big")


def test_without_a_schema_with_the_metadata_records_are_bad(registry):
    first, *_ = versions(registry, "AVRO")
    converter = made("AVRO", registry, **{**WORDS, METADATA: "application.version=v3"})
    for convert in (lambda: converter.from_connect("t", *column("a")),
                    lambda: converter.to_connect("t", framed(first, pa.array([b"\2\2"])))):
        with pytest.raises(BadRowsError, match=r"subject t-value, metadata application\.version=v3") as bad:
            convert()
        assert isinstance(bad.value.bad[0][1], UnknownSchemaError)
    asked = [path for path in registry.requests if "/metadata" in path]
    assert len(asked) == 1, "it is missing for a moment"


def test_the_latest_schema_with_metadata_is_asked_once(registry):
    versions(registry, "AVRO")
    converter = made("AVRO", registry, **WORDS)
    for _ in range(3):
        converter.to_connect("t", converter.from_connect("t", *column("a")))
    assert len([path for path in registry.requests if "/metadata" in path]) == 1
    kept_apart = made("AVRO", registry, **{**WORDS, METADATA: "team=x"})
    assert kept_apart.from_connect("t", *column("a"))[0].as_py()[1:5] == (1).to_bytes(4, "big")


def test_a_registry_without_metadata_fails_the_task(registry, monkeypatch):
    """Its response to the request is that it has no such path, without an error code."""
    first, *_ = versions(registry, "AVRO")
    answer = registry.answer
    monkeypatch.setattr(registry, "answer", lambda method, path, body: None if "/metadata" in path else answer(
        method, path, body))
    monkeypatch.setattr(registry, "unknown", {"title": "Not Found"})
    with pytest.raises(ConfigError, match=r"use\.latest\.with\.metadata needs a registry that supports metadata"):
        made("AVRO", registry, **WORDS).to_connect("t", framed(first, pa.array([b"\2\2"])))


@pytest.mark.parametrize("words", ["v1", "a=1,b", "a=1,", "'a=1", "a=1,a=2", "'a'x=1"])
def test_metadata_that_are_no_pairs_are_refused(words):
    """By the task and by validation."""
    config = {"schema.registry.url": "http://127.0.0.1:1", METADATA: words}
    with pytest.raises(ConfigError, match=r"for configuration use\.latest\.with\.metadata: must be") as error:
        AvroConverter().configure(config, is_key=False)
    found = AvroConverter.config_def.validate_all({**config, "converter.type": "value"})
    assert found[METADATA].errors == [str(error.value)]


PROTO = """syntax = "proto3"; package far; message First { int64 a = 1; }
message Second { message Inner { int64 a = 1; } int64 a = 1; }"""
PROTO_INDEXES = {"far.First": b"\0", "far.Second": b"\2\2", "far.Second.Inner": b"\4\2\0"}


@pytest.mark.parametrize("record", list(PROTO_INDEXES))
@pytest.mark.parametrize(("strategy", "subject"), [
    (RECORD_NAME, "{}"), (TOPIC_RECORD_NAME, "t-{}"), (TOPIC_NAME, "t-value")])
def test_the_subject_of_a_protobuf_record_is_that_of_its_own_message(registry, strategy, subject, record):
    """It determines the version and the newest schema. It used to be that of the first message of the schema."""
    for name in PROTO_INDEXES:  # in each subject, the schema has another version
        register(registry, subject.format(name), "PROTOBUF", f'syntax = "proto3"; message Other{len(name)} {{}}')
    subjects = [subject.format(name) for name in PROTO_INDEXES]
    schema_id = register(registry, "unrelated", "PROTOBUF", PROTO)
    for place, one in enumerate(subjects):
        registry.subjects[one] = [*range(1, place + 2), schema_id]
    newest = PROTO.replace("int64 a = 1;", f"int64 a = 1; int64 of_{record.replace('.', '_')} = 2;")
    registry.subjects[subject.format(record)].append(register(registry, "unrelated", "PROTOBUF", newest))
    payload = pa.array([b"\0" + schema_id.to_bytes(4, "big") + PROTO_INDEXES[record] + b"\x08\5"])
    reader = made("PROTOBUF", registry, **{"value.subject.name.strategy": strategy})
    found, metadata = reader.to_connect("t", payload)
    assert found.to_pylist() == [{"a": 5}]
    place = max(n for n, one in enumerate(subjects) if one == subject.format(record))
    assert from_text(metadata[SCHEMA_KEY]).version == place + 2
    reader = made("PROTOBUF", registry, **{"value.subject.name.strategy": strategy, "use.latest.version": "true"})
    found, metadata = reader.to_connect("t", payload)
    assert found.to_pylist() == [{"a": 5, f"of_{record.replace('.', '_')}": 0}]
    assert from_text(metadata[SCHEMA_KEY]).version == place + 3


@pytest.mark.parametrize("strategy", [RECORD_NAME, TOPIC_NAME])
@pytest.mark.parametrize("latest", ["true", "false"])
def test_a_message_that_a_protobuf_schema_does_not_have_is_a_bad_record(registry, strategy, latest):
    """Also where it would name the subject. The other records of the batch are read."""
    schema_id = register(registry, "t-value", "PROTOBUF", PROTO)
    registry.subjects["far.Second"] = [schema_id]
    start = b"\0" + schema_id.to_bytes(4, "big")
    reader = made("PROTOBUF", registry, **{"value.subject.name.strategy": strategy, "use.latest.version": latest})
    batch = pa.array([start + b"\2\2\x08\1", start + b"\2\x10\x08\2", None, start + b"\2\2\x08\3"])
    with pytest.raises(MixedSchemasError) as mixed:
        reader.to_connect("t", batch)
    good, bad = (batch.take(pa.array(rows)) for rows in mixed.value.rows_by_schema())
    assert reader.to_connect("t", good)[0].to_pylist() == [{"a": 1}, {"a": 3}]
    with pytest.raises(BadRowsError, match=r"the schema has no message at the index \[8\]") as error:
        reader.to_connect("t", bad)
    assert [(row, type(one)) for row, one in error.value.bad] == [(0, UnusableSchemaError)]


def chain(kind, levels, *, closed=False):
    """A schema of records within records; `closed`: the innermost one is the outermost one again."""
    if kind == "PROTOBUF":
        inner = "L0" if closed else "int64"
        parts = [f"message L{n} {{ {f'L{n + 1}' if n < levels - 1 else inner} a = 1; }}" for n in range(levels)]
        return 'syntax = "proto3"; ' + " ".join(parts)
    if kind == "JSON":
        parts = {f"L{n}": {"type": "object", "properties": {"a": {"$ref": f"#/definitions/L{n + 1}"}}}
                 for n in range(levels)}
        last = {"$ref": "#/definitions/L0"} if closed else {"type": "integer"}
        return json.dumps({"definitions": {**parts, f"L{levels}": last}, "$ref": "#/definitions/L0"})
    text = '"L0"' if closed else '"long"'
    for n in reversed(range(levels)):
        text = f'{{"type":"record","name":"L{n}","fields":[{{"name":"a","type":{text}}}]}}'
    return text


INLINE = {  # deep types without names
    "AVRO": '{"type":"array","items":' * 1000 + '"int"' + "}" * 1000,
    "JSON": '{"type":"array","items":' * 1000 + '{"type":"integer"}' + "}" * 1000,
    "PROTOBUF": 'syntax = "proto3"; ' + "".join(f"message L{n} {{ " for n in range(1000)) + "int64 a = 1;" + "}" * 1000,
}
PAYLOADS = {"AVRO": b"\2", "JSON": b'{"a":1}', "PROTOBUF": b"\0\x08\1"}


def reads_as_bad(registry, kind, words, schema_id):
    """Whether records with the schema are bad, in both directions, while a record with another schema is read."""
    register(registry, "t-value", kind, schema_text(kind, "a"))
    good = len(registry.schemas)
    for config in ({}, {"json.fail.invalid.schema": "true"}) if kind == "JSON" else ({},):
        reader = made(kind, registry, **config)
        for _ in range(2):
            with pytest.raises(BadRowsError, match=words) as error:
                reader.to_connect("t", framed(schema_id, pa.array([PAYLOADS[kind]] * 2)))
            assert [(row, type(one)) for row, one in error.value.bad] == [(0, UnusableSchemaError),
                                                                         (1, UnusableSchemaError)]
        [written] = made(kind, registry).from_connect("other", *column("a"))
        assert reader.to_connect("t", framed(good, pa.array([written.as_py()[5:]])))[0].to_pylist() == [{"a": 1}]
    if kind == "JSON":  # texts are written without regard to the schema that is named
        return
    writer = made(kind, registry, **{"auto.register.schemas": "false", "use.schema.id": str(schema_id)})
    with pytest.raises(BadRowsError) as error:
        writer.from_connect("t", *column("a"))
    assert isinstance(error.value.bad[0][1], UnusableSchemaError)
    assert len(str(error.value)) < 1000


@KINDS
@pytest.mark.parametrize("levels", [1, 2, 30])
def test_a_recursive_schema_makes_bad_records(registry, kind, levels):
    """The error says what contains itself, and where, and what to do."""
    schema_id = register(registry, "t-value", kind, chain(kind, levels, closed=True))
    where = ".".join("a" * levels)
    reads_as_bad(registry, kind, rf"the schema {schema_id}: the .*L0 contains itself, in the field {where}\. "
                 r"Arrow has no recursive types; use .* to a fixed depth, or ByteArrayConverter", schema_id)


@KINDS
@pytest.mark.parametrize("levels", [101, 1000])
def test_a_schema_that_is_nested_too_deep_makes_bad_records(registry, kind, levels):
    schema_id = register(registry, "t-value", kind, chain(kind, levels))
    reads_as_bad(registry, kind, "nested more than 100 levels deep", schema_id)


@KINDS
def test_types_without_names_that_are_nested_too_deep_make_bad_records(registry, kind):
    schema_id = register(registry, "t-value", kind, INLINE[kind])
    reads_as_bad(registry, kind, "levels deep", schema_id)


MUTUAL = {  # two schemas that use each other, which only a hostile registry has, by the names of the references
    "AVRO": [('{"type":"record","name":"L0","fields":[{"name":"a","type":"L1"}]}', "L1"),
             ('{"type":"record","name":"L1","fields":[{"name":"a","type":"L0"}]}', "L0")],
    "JSON": [('{"title":"L0","type":"object","properties":{"a":{"$ref":"L1"}}}', "L1"),
             ('{"title":"L1","type":"object","properties":{"a":{"$ref":"L0"}}}', "L0")],
    "PROTOBUF": [('syntax = "proto3"; import "L1"; message A0 { A1 a = 1; }', "L1"),
                 ('syntax = "proto3"; import "L0"; message A1 { A0 a = 1; }', "L0")],
}  # fmt: skip


@KINDS
def test_schemas_that_reference_each_other_make_bad_records(registry, kind):
    for (text, name), subject in zip(MUTUAL[kind], ("s0", "s1"), strict=True):
        register(registry, subject, kind, text)
        other = "s1" if subject == "s0" else "s0"
        registry.schemas[-1]["references"] = [{"name": name, "subject": other, "version": 1}]
    reads_as_bad(registry, kind, "levels deep, for example because they reference each other", 1)


def test_messages_that_were_read_before_count_as_levels(registry):
    """A message that contains one that is known was as deep as it would have been without it."""
    schema_id = register(registry, "t-value", "PROTOBUF", chain("PROTOBUF", 300))
    converter = made("PROTOBUF", registry)
    start = b"\0" + schema_id.to_bytes(4, "big")

    def read(place):
        return converter.to_connect("t", pa.array([start + indexes.written((place,))]))[0].to_pylist()

    assert read(200) == [{"a": None}]
    for place in (199, 101, 0):
        with pytest.raises(BadRowsError, match="nested more than 100 levels deep"):
            read(place)


def test_a_schema_to_write_with_that_is_unusable_is_not_read_again_for_each_record(registry, monkeypatch):
    """All records of a batch have the same one; it used to be read for each of them."""
    schema_id = register(registry, "t-value", "AVRO", chain("AVRO", 1, closed=True))
    written = []
    writer = AvroConverter.writer
    monkeypatch.setattr(AvroConverter, "writer", lambda self, *given, **more: written.append(1) or writer(
        self, *given, **more))
    converter = made("AVRO", registry, **{"auto.register.schemas": "false", "use.schema.id": str(schema_id)})
    values, metadata = column("a")
    for _ in range(2):
        with pytest.raises(BadRowsError, match="the Avro record L0 contains itself") as error:
            converter.from_connect("t", pa.concat_arrays([values] * 5), metadata)
        assert [row for row, _ in error.value.bad] == [0, 1, 2, 3, 4]
    assert len(written) == 1


def test_a_schema_may_reference_a_thousand_others(registry):
    """Each could itself reference a thousand."""
    register(registry, "part", "AVRO", '"int"')
    schema_id = register(registry, "t-value", "AVRO", schema_text("AVRO", "a"))
    registry.schemas[-1]["references"] = [{"name": f"r{n}", "subject": "part", "version": 1} for n in range(1000)]
    reader = made("AVRO", registry)
    assert reader.to_connect("t", framed(schema_id, pa.array([b"\2\2"])))[0].to_pylist() == [{"a": 1}]
    more = register(registry, "t-value", "AVRO", schema_text("AVRO", "a"))
    registry.schemas[-1]["references"] = [{"name": f"r{n}", "subject": "part", "version": 1} for n in range(1001)]
    with pytest.raises(BadRowsError, match="or are more than 1000"):
        reader.to_connect("t", framed(more, pa.array([b"\2\2"])))
