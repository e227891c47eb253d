"""Schemas of Protobuf and of Connect, mapped as by Confluent's converter; invalid schemas are refused."""

import base64
import datetime as dt
import subprocess
import sys
import tempfile

import pyarrow as pa
import pytest
from google.protobuf import descriptor_pb2

from spark_tasks.data.arrow_types import to_arrow
from spark_tasks.data.schema import DATE, DECIMAL, TIME, TIMESTAMP, Field, Schema, Type
from spark_tasks.errors import ConfigError, DataError, RetriableError
from spark_tasks.pipeline.converters.base import BadRowError, BadRowsError
from spark_tasks.pipeline.converters.protobuf import columns
from spark_tasks.pipeline.converters.protobuf import names as n
from spark_tasks.pipeline.converters.protobuf.codec import ProtobufCodec
from spark_tasks.pipeline.converters.protobuf.converter import ProtobufConverter
from spark_tasks.pipeline.converters.protobuf.files import files_of
from spark_tasks.pipeline.converters.protobuf.names import ProtobufOptions
from spark_tasks.pipeline.converters.protobuf.to_connect import connect_schema
from spark_tasks.pipeline.converters.protobuf.to_protobuf import protobuf_file
from spark_tasks.pipeline.converters.protobuf.tree import Schemas
from spark_tasks.plugins import Kind, Plugins

URL = {"schema.registry.url": "http://127.0.0.1:1"}
RECORD = Schema(Type.STRUCT, name="shop.Order", fields=(
    Field("small", Schema(Type.INT8)), Field("text", Schema(Type.STRING, optional=True)),
    Field("price", Schema(Type.BYTES, name=DECIMAL, version=1, parameters=(("scale", "2"),))),
    Field("day", Schema(Type.INT32, name=DATE, version=1)),
    Field("counts", Schema(Type.MAP, key=Schema(Type.INT32), value=Schema(Type.INT64))),
    Field("Inner", Schema(Type.STRUCT, name="shop.Inner", fields=(Field("tags", Schema(
        Type.ARRAY, value=Schema(Type.STRING))),))),
    Field("color", Schema(Type.STRING, name="shop.Color", parameters=(
        (n.ENUM, "Color"), (f"{n.ENUM}.RED", "0"), (f"{n.ENUM}.BLUE", "5")))),
))  # fmt: skip
TEXT = """syntax = "proto3";
package shop;

import "confluent/type/decimal.proto";
import "google/type/date.proto";

message Order {
  int32 small = 1 [(confluent.field_meta) = {
    params: [
      {
        key: "connect.type",
        value: "int8"
      }
    ]
  }];
  optional string text = 2;
  confluent.type.Decimal price = 3 [(confluent.field_meta) = {
    params: [
      {
        value: "2",
        key: "scale"
      }
    ]
  }];
  google.type.Date day = 4;
  repeated ConnectDefault1Entry counts = 5;
  InnerMessage Inner = 6;
  Color color = 7;

  enum Color {
    RED = 0;
    BLUE = 5;
  }

  message ConnectDefault1Entry {
    int32 key = 1;
    int64 value = 2;
  }

  message InnerMessage {
    repeated string tags = 1;
  }
}
"""
PROTO = """syntax = "proto3";
package shop;
import "google/protobuf/wrappers.proto";
import "google/protobuf/timestamp.proto";
import "google/type/timeofday.proto";
message Order {
  uint64 big = 3;
  sint32 z = 4;
  google.protobuf.StringValue maybe = 5;
  oneof either { string a_text = 6; Other other = 7; google.protobuf.Int32Value boxed = 12; }
  map<string, Other> others = 8;
  google.protobuf.Timestamp when = 9;
  google.type.TimeOfDay at = 10;
  optional bool sure = 11;
}
message Other { int32 x = 1; }
"""


def tag(number, *parameters):
    return (*parameters, (n.TAG, str(number)))


def of(text, options=None, index=(0,)):
    return connect_schema(Schemas(files_of(text, {})).message(index), options or ProtobufOptions())


def test_a_connect_schema_is_written_as_protobuf_text():
    """A compiler derives the same schema from it as from the descriptor that records are written with."""
    options = ProtobufOptions(optional=True)
    files, text, name = protobuf_file(RECORD, options)
    assert (text, name) == (TEXT, "shop.Order")
    compiled, own = Schemas(files_of(text, {})), Schemas(files)
    assert compiled.index(name) == own.index(name) == (0,)
    assert connect_schema(compiled.message((0,)), options) == connect_schema(own.message((0,)), options)
    assert of(text, options).fields[0].schema.type is Type.INT8


def test_a_protobuf_text_is_read_as_a_connect_schema():
    fields = {field.name: field.schema for field in of(PROTO).fields}
    assert list(fields) == ["either_0", "big", "z", "maybe", "others", "when", "at", "sure"]
    other = Schema(Type.STRUCT, name="Other", fields=(
        Field("x", Schema(Type.INT32, optional=True, parameters=tag(1))),))
    assert fields["big"] == Schema(Type.INT64, optional=True, parameters=tag(3, (n.KIND, "uint64")))
    assert fields["z"] == Schema(Type.INT32, optional=True, parameters=tag(4, (n.KIND, "sint32")))
    assert fields["maybe"].fields[0].name == "value"
    assert fields["others"].name == "others"
    assert fields["others"].key == Schema(Type.STRING, optional=True, parameters=tag(1))
    assert (fields["when"].name, fields["at"].name) == (TIMESTAMP, TIME)
    union = fields["either_0"]
    assert (union.name, [one.name for one in union.fields]) == (f"{n.UNION}.either", ["a_text", "other", "boxed"])
    assert union.fields[1].schema.fields == other.fields


def test_the_mapping_follows_its_options():
    wrapped = {field.name: field.schema for field in of(PROTO, ProtobufOptions(wrapper=True, flatten=True)).fields}
    assert list(wrapped)[:4] == ["a_text", "other", "boxed", "big"]
    assert wrapped["maybe"] == Schema(Type.STRING, optional=True, parameters=tag(5))
    assert wrapped["boxed"] == Schema(Type.INT32, optional=True, parameters=tag(12, (n.WRAPPER, "true")))
    assert not wrapped["big"].optional
    options = ProtobufOptions(optional=True, enhanced=True, indexes=False)
    words = {field.name: field.schema for field in of(PROTO, options).fields}
    assert (words["sure"].optional, words["big"].optional, words["either"].name) == (
        True, False, f"{n.UNION}.shop.Order.either")
    enum = 'syntax = "proto3"; message M { E e = 1; enum E { option allow_alias = true; A = 0; B = 0; } }'
    numbers = of(enum, ProtobufOptions(int_enums=True)).fields[0].schema
    assert (numbers.type, dict(numbers.parameters)[f"{n.ENUM}.B"]) == (Type.INT32, "0")
    scrub = ProtobufOptions(scrub=True).name
    assert (scrub("1 grün/x"), scrub("a~b")) == ("x1_gr_C3_BCn_2Fx", "a_7Eb")
    assert (n.entry_name("my_map"), n.map_name("a.MyMapEntry")) == ("MyMapEntry", "a.my_map")


def read(text, payload, options=None):
    message = Schemas(files_of(text, {})).message((0,))
    schema = connect_schema(message, options or ProtobufOptions())
    wire = ProtobufCodec(message).decode(pa.array([payload], pa.binary()))
    return columns.to_connect(wire, message, schema, options or ProtobufOptions()).to_pylist()[0]


def test_symbols_of_enums_are_not_scrubbed():
    """As in Java: only names of fields and types are."""
    field = Field("~", Schema(Type.STRING, name="_E", parameters=((n.ENUM, "_E"), (f"{n.ENUM}._NONE", "0"))))
    schema, options = Schema(Type.STRUCT, name="M", fields=(field,)), ProtobufOptions(scrub=True)
    files, text, _ = protobuf_file(schema, options)
    assert "x_E _7E = 1;" in text
    assert "  _NONE = 0;" in text
    wire = columns.from_connect(pa.array([{"~": "_NONE"}]), schema, Schemas(files).message((0,)), options)
    assert wire.to_pylist() == [{"f1": 0}]


def test_an_entry_of_a_map_without_its_value_has_the_default_one():
    """For a message, too: Java reads one without fields."""
    text = """syntax = "proto3"; import "google/protobuf/wrappers.proto";
        message M { map<string, I> m = 1; map<string, google.protobuf.StringValue> n = 2; }
        message I { int32 x = 1; optional bool y = 2; }"""
    payload = b"\x0a\x03\x0a\x01k\x0a\x07\x0a\x01l\x12\x02\x08\x05\x12\x03\x0a\x01k"
    assert read(text, payload, ProtobufOptions(wrapper=True)) == {
        "m": [("k", {"x": 0, "y": None}), ("l", {"x": 5, "y": None})], "n": [("k", "")]}


def test_unusual_protobuf_values_are_decoded():
    enum = 'syntax = "proto3"; message M { E e = 1; enum E { A = 0; } Inner i = 2; message Inner { int32 x = 1; } }'
    assert read(enum, b"\x08\x07") == {"e": "UNKNOWN_ENUM_VALUE_E_7", "i": None}
    assert read(enum, b"", ProtobufOptions(structs=True)) == {"e": "A", "i": {"x": 0}}
    proto2 = 'syntax = "proto2"; message M { optional int32 a = 1 [default = 5]; required int32 b = 2; }'
    assert read(proto2, b"\x10\x01") == {"a": None, "b": 1}
    assert read(proto2, b"\x10\x01", ProtobufOptions(proto2=False)) == {"a": 5, "b": 1}
    with pytest.raises(BadRowError, match="missing required fields"):
        read(proto2, b"\x08\x01")
    twice = 'syntax = "proto3"; message M { oneof one { int32 a = 1; int32 b = 2; } }'
    assert read(twice, b"\x10\x01\x08\x02") == {"one_0": {"a": 2, "b": None}}
    assert read('syntax = "proto3"; message M { map<string, int32> m = 1; }', b"\x0a\0\x0a\x03\x0a\x01k") == {
        "m": [("", 0), ("k", 0)]}


@pytest.mark.parametrize(("text", "words"), [
    ("", "has no message"), ("no schema", "Expected top-level"), ("AAAA", "not valid"),
    ('syntax = "proto3"; message A { A a = 1; }', "contains itself"),
    ('syntax = "proto3"; message A { B b = 1; } message B { repeated A a = 1; }', "contains itself"),
    ('syntax = "proto3"; import "/etc/passwd"; message A {}', "not found"),
    ('syntax = "proto3"; message A { int32 x = 1;', "end of input"), ("message A {" * 5000, "levels deep"),
    ('syntax = "proto2"; message A { optional group G = 1 { } }', "group"),
    ('syntax = "proto3"; message M0 {}' + "".join(
        f"message M{i} {{ M{i - 1} a = 1; M{i - 1} b = 2; }}" for i in range(1, 60)), "no message at"),
])  # fmt: skip
def test_invalid_protobuf_schemas_are_refused(text, words):
    with pytest.raises(DataError, match=words):
        of(text, index=(99,) if "no message at" in words else (0,))


def test_hostile_schemas_are_refused_or_need_little_memory():
    """Names are cheap to repeat, columns and tables are not."""
    doubled = 'syntax = "proto3"; message M0 {}' + "".join(
        f"message M{i} {{ M{i - 1} a = 1; M{i - 1} b = 2; }}" for i in range(1, 60))
    with pytest.raises(DataError, match="more than 20000 fields"):
        of(doubled, index=(59,))
    high = Schemas(files_of('syntax = "proto3"; message A { int32 x = 536870911; }', {})).message((0,))
    codec = ProtobufCodec(high)
    assert codec.decode(codec.encode(pa.array([{"f536870911": 7}], codec.type))).to_pylist() == [{"f536870911": 7}]
    with pytest.raises(DataError, match="invalid file name"):
        files_of(PROTO, {"../up.proto": "x"})


@pytest.mark.parametrize("names", [("a" * 5000 + ".proto",), ("x", "x/y.proto"), ("heeler-main.proto/x",)])
def test_a_reference_may_have_any_name(names):
    """Also one that no file can have."""
    texts = {name: f'syntax = "proto3"; message B{i} {{ int32 x = 1; }}' for i, name in enumerate(names)}
    imports = "".join(f'import "{name}";' for name in names)
    fields = "".join(f"B{i} b{i} = {i + 1};" for i in range(len(names)))
    files = files_of(f'syntax = "proto3"; {imports} message A {{ {fields} }}', texts)
    assert [one.fields[0].name for one in (field.schema for field in connect_schema(
        Schemas(files).message((0,)), ProtobufOptions()).fields)] == ["x"] * len(names)


@pytest.fixture
def processes(monkeypatch):
    """The commands that were run."""
    found, run = [], subprocess.run
    monkeypatch.setattr(subprocess, "run", lambda command, **more: found.append(command) or run(command, **more))
    return found


def test_a_schema_is_compiled_once(processes):
    """Also one that is not valid, although its reader is made for each batch. A corrected one is another schema."""
    wrong = 'syntax = "proto3"; message Once { Missing a = 1; }'
    for _ in range(3):
        with pytest.raises(DataError, match=r'heeler-main\.proto:1:35: "Missing" is not defined'):
            files_of(wrong, {})
    assert len(processes) == 1
    for _ in range(3):
        files_of(wrong.replace("Missing", "int32"), {})
    assert len(processes) == 2


@pytest.mark.parametrize(("failure", "error"), [
    (OSError(12, "Cannot allocate memory"), RetriableError), (subprocess.TimeoutExpired("protoc", 60), DataError),
    (subprocess.CompletedProcess([], -9, "", ""), RetriableError),
])
def test_a_compiler_that_was_killed_or_did_not_start_is_tried_again(monkeypatch, failure, error):
    def failing(*_, **__):
        if isinstance(failure, Exception):
            raise failure
        return failure

    text = f'syntax = "proto3"; message Again {{ int32 {type(failure).__name__} = 1; }}'
    with monkeypatch.context() as patched:
        patched.setattr(subprocess, "run", failing)
        with pytest.raises(error):
            files_of(text, {})
    assert of(text).fields


def test_no_space_for_the_compilers_files_is_no_bad_record(monkeypatch, tmp_path):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "missing"))
    with pytest.raises(RetriableError, match="could not run the compiler"):
        files_of('syntax = "proto3"; message NoSpace { int32 x = 1; }', {})


def test_a_serialized_descriptor_is_accepted_as_a_schema():
    file = descriptor_pb2.FileDescriptorProto(name="x.proto", syntax="proto3")
    file.message_type.add(name="A").field.add(name="a", number=1, type=5, label=1)
    assert of(base64.b64encode(file.SerializeToString()).decode()).fields[0].name == "a"


@pytest.mark.parametrize(("schema", "words"), [
    (Schema(Type.ARRAY, value=Schema(Type.INT32)), "Unsupported root schema of type array"),
    (Schema(Type.INT32, name=DATE, version=1), "Unsupported root schema"),
    (Schema(Type.STRUCT, fields=(Field("a", Schema(Type.ARRAY, value=Schema(Type.ARRAY, value=Schema(Type.INT8)))),)),
     "Array cannot be nested"),
    (Schema(Type.STRUCT, fields=(Field("a b", Schema(Type.INT8)),)), "not valid"),
    (Schema(Type.STRUCT, fields=(Field("a", Schema(Type.INT8, parameters=((n.TAG, "-1"),))),)), "valid field number"),
])  # fmt: skip
def test_schemas_that_protobuf_cannot_express_are_refused(schema, words):
    with pytest.raises(DataError, match=words):
        Schemas(protobuf_file(schema, ProtobufOptions())[0])


@pytest.mark.parametrize(("logical", "kind", "wire", "value"), [
    (DATE, Type.INT32, {"f1": 1500, "f2": 2, "f3": 29}, dt.date(1500, 3, 10)),  # a day of Java's Julian calendar
    (DATE, Type.INT32, {"f1": 9999, "f2": 12, "f3": 31}, dt.date(9999, 12, 31)),
    (DATE, Type.INT32, {"f1": 2023, "f2": 2, "f3": 29}, None), (DATE, Type.INT32, {"f1": 0, "f2": 0, "f3": 0}, None),
    (DATE, Type.INT32, {"f1": 1582, "f2": 10, "f3": 10}, None),
    (DATE, Type.INT32, {"f1": -(2**31), "f2": 2**31 - 1, "f3": 2**31 - 1}, None),
    (TIME, Type.INT32, {"f1": 24, "f2": 0, "f3": 0, "f4": 0}, None),
    (TIME, Type.INT32, {"f1": 23, "f2": 59, "f3": 59, "f4": 999_999_999}, dt.time(23, 59, 59, 999_000)),
    (TIMESTAMP, Type.INT64, {"f1": 2**62, "f2": 0}, None), (TIMESTAMP, Type.INT64, {"f1": 0, "f2": -1}, None),
    (TIMESTAMP, Type.INT64, {"f1": -1, "f2": 999_999_999}, dt.datetime(1969, 12, 31, 23, 59, 59, 999_000, dt.UTC)),
])  # fmt: skip
def test_dates_times_and_timestamps_round_trip(logical, kind, wire, value):
    schema = Schema(Type.STRUCT, name="A", fields=(Field("a", Schema(kind, name=logical, version=1, optional=True)),))
    files, _, _ = protobuf_file(schema, ProtobufOptions())
    message = Schemas(files).message((0,))
    array = pa.array([None, {"f1": wire}, {"f1": None}], ProtobufCodec(message).type)
    if value is None:
        with pytest.raises(BadRowError) as bad:
            columns.to_connect(array, message, connect_schema(message, ProtobufOptions()), ProtobufOptions())
        assert bad.value.row == 1
        return
    found = columns.to_connect(array, message, connect_schema(message, ProtobufOptions()), ProtobufOptions())
    assert found.to_pylist() == [None, {"a": value}, {"a": None}]
    again = columns.from_connect(found[1:], schema, message, ProtobufOptions())
    kept = {**wire, "f4": wire["f4"] // 10**6 * 10**6} if "f4" in wire else wire
    kept = {**kept, "f2": kept["f2"] // 10**6 * 10**6} if logical == TIMESTAMP else kept
    assert again.to_pylist() == [{"f1": kept}, {"f1": None}]


@pytest.mark.parametrize("tag", [b"\x7b", b"\x83\x06"])
def test_groups_within_groups_are_one_bad_record(tag):
    """Such a record used to overflow the stack of the process, which ended it."""
    message = Schemas(files_of('syntax = "proto3"; message M { int32 a = 1; bytes b = 2; }', {})).message((0,))
    codec = ProtobufCodec(message)
    groups = tag * (900_000 // len(tag))
    payloads = pa.array([b"\x08\x05", groups, b"\x12\x80\x80\x01" + b"\x0b" * 2**14, b"\x08\x06"], pa.binary())
    with pytest.raises(BadRowsError) as bad:
        codec.decode(payloads)
    assert [row for row, _ in bad.value.bad] == [1]
    good = codec.decode(payloads.filter(pa.array([True, False, True, True]))).to_pylist()
    assert good == [{"f1": 5, "f2": b""}, {"f1": 0, "f2": b"\x0b" * 2**14}, {"f1": 6, "f2": b""}]


def test_decimals_have_the_scale_of_their_schema():
    schema = Schema(Type.STRUCT, name="A", fields=(RECORD.fields[2],))
    message = Schemas(protobuf_file(schema, ProtobufOptions())[0]).message((0,))
    kind = ProtobufCodec(message).type
    good = [{"f1": {"f1": b"\x05", "f2": 1, "f3": scale}} for scale in (2, 1, 0)]
    options = ProtobufOptions()
    found = columns.to_connect(pa.array(good, kind), message, connect_schema(message, options), options)
    assert [str(one["price"]) for one in found.to_pylist()] == ["0.05", "0.50", "5.00"]
    for wire in ({"f1": b"\x05", "f3": 3}, {"f1": b"\x05", "f3": 2**31 - 1}, {"f1": b"", "f3": 2},
                 {"f1": b"\x7f" * 40, "f3": 2}):
        array = pa.array([good[0], {"f1": {"f2": 1, **wire}}], kind)
        with pytest.raises(BadRowError) as bad:
            columns.to_connect(array, message, connect_schema(message, ProtobufOptions()), ProtobufOptions())
        assert bad.value.row == 1
    assert to_arrow(connect_schema(message, ProtobufOptions()))[0].type.scale == 2


def test_the_protobuf_converter_has_confluents_settings():
    assert Plugins().find(Kind.CONVERTER, "ProtobufConverter").cls is ProtobufConverter
    infos = {one["name"]: one for one in ProtobufConverter.config_def.key_infos()}
    expected = {"optional.for.proto2": "true", "wrapper.for.raw.primitives": "true", "flatten.unions": "false",
                "generate.index.for.unions": "true", "scrub.invalid.names": "false"}
    assert {key: infos[key]["default_value"] for key in expected} == expected
    with pytest.raises(ConfigError, match=r"skip\.known\.types"):
        ProtobufConverter().configure({**URL, "skip.known.types": "false"}, is_key=False)


@pytest.mark.parametrize("package", ["ptars", "grpc_tools"])
def test_the_error_for_missing_packages_says_what_to_install(monkeypatch, package):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ConfigError, match=r"pip install 'heeler\[registry\]'"):
        ProtobufConverter().configure(URL, is_key=False)


def test_imports_are_in_the_order_of_their_first_use():
    """As Confluent's converter writes them: in another order, they would be another version of the subject."""
    fields = [Field("day", Schema(Type.INT32, name=DATE, version=1)),
              Field("price", Schema(Type.BYTES, name=DECIMAL, version=1)),
              Field("second", Schema(Type.INT32, name=DATE, version=1))]
    _, text, _ = protobuf_file(Schema(Type.STRUCT, name="M", fields=tuple(fields)), ProtobufOptions())
    assert [line for line in text.splitlines() if line.startswith("import")] == [
        'import "google/type/date.proto";', 'import "confluent/type/decimal.proto";']
