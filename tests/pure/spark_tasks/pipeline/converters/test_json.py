"""JsonConverter's options (schema.content (KIP-1054), decimal.format, replace.null.with.default), and bad payloads."""

import base64
import json
import timeit
from dataclasses import replace
from datetime import UTC, date, datetime, time
from decimal import Decimal
from functools import partial

import numpy as np
import pyarrow as pa
import pytest

from spark_tasks.data.arrow_types import to_arrow
from spark_tasks.data.columns import SCHEMA_KEY
from spark_tasks.data.schema import DATE, DECIMAL, TIME, TIMESTAMP, Field, Schema, Type, from_text, to_text
from spark_tasks.errors import ConfigError, DataError
from spark_tasks.pipeline.converters.base import BadRowError, BadRowsError
from spark_tasks.pipeline.converters.java_values import Moment, Struct
from spark_tasks.pipeline.converters.json import JsonConverter
from spark_tasks.pipeline.converters.json_columns import members_named, read_tape
from spark_tasks.pipeline.converters.values import parse_string
from spark_tasks.pipeline.errors.failures import reason_of

PRICE = Schema(Type.BYTES, name=DECIMAL, version=1, parameters=(("scale", "2"),))
ROW = Schema(Type.STRUCT, fields=(
    Field("a", Schema(Type.INT32)), Field("b", Schema(Type.STRING, optional=True, default='"x"'))))


def converter(**config):
    found = JsonConverter()
    found.configure(config, is_key=False)
    return found


def test_schema_content_is_the_schema_of_every_payload():
    fixed = converter(**{"schema.content": to_text(ROW)})
    found, metadata = fixed.to_connect("t", pa.array([b'{"a":1,"b":"y"}', None, b'{"a":2}', b'{"a":3,"b":null}']))
    assert from_text(metadata[SCHEMA_KEY]) == ROW
    assert found.to_pylist() == [{"a": 1, "b": "y"}, None, {"a": 2, "b": "x"}, {"a": 3, "b": "x"}]
    with pytest.raises(BadRowError) as bad:  # an envelope is not a payload
        fixed.to_connect("t", pa.array([b'{"a":1}', b'{"schema":null,"payload":{"a":1}}']))
    assert bad.value.row == 1


def test_schema_content_has_no_effect_on_writing():
    values = pa.array([{"a": 1, "b": None}], to_arrow(ROW))
    metadata = {SCHEMA_KEY: to_text(ROW).encode()}
    plain, fixed = converter(), converter(**{"schema.content": to_text(ROW)})
    assert fixed.from_connect("t", values, metadata) == plain.from_connect("t", values, metadata)


def test_objects_may_have_many_long_names_that_appear_one_after_the_other():
    rows = [{f"{n}{'x' * (n * 7 % 90)}": n + row for n in range(some)} for row, some in enumerate((1, 9, 40, 5, 120))]
    texts = pa.array([json.dumps(row).encode() for row in rows])
    found, _ = converter(**{"schemas.enable": "false"}).to_connect("t", texts)
    assert [{name: n for name, n in row.items() if n is not None} for row in found.to_pylist()] == rows


def test_without_schemas_there_is_no_schema():
    found, metadata = converter(**{"schemas.enable": "false", "schema.content": to_text(ROW)}).to_connect(
        "t", pa.array([b'{"a":1}']))
    assert (found.to_pylist(), SCHEMA_KEY in metadata) == ([{"a": 1}], False)


@pytest.mark.parametrize("enabled", ["true", "false"])
@pytest.mark.parametrize("text", ["{", '{"type":"map"}', "null"])
def test_an_invalid_schema_content_is_refused(text, enabled):
    """Also where it has no effect, as in Java."""
    with pytest.raises(ConfigError, match=r"schema\.content"):
        converter(**{"schema.content": text, "schemas.enable": enabled})


@pytest.mark.parametrize(("form", "written"), [("BASE64", '"BNI="'), ("numeric", "12.34")])
def test_decimals_are_bytes_or_numbers(form, written):
    """Written in the one form, read in both."""
    said = converter(**{"decimal.format": form})
    metadata = {SCHEMA_KEY: to_text(PRICE).encode()}
    text = said.from_connect("t", pa.array([Decimal("12.34")], to_arrow(PRICE)), metadata)[0].as_py().decode()
    assert text == f'{{"schema":{to_text(PRICE)},"payload":{written}}}'
    fixed = converter(**{"schema.content": to_text(PRICE), "decimal.format": form})
    assert fixed.to_connect("t", pa.array([b'"BNI="', b"12.34"]))[0].to_pylist() == [Decimal("12.34")] * 2


def test_nulls_may_be_kept_instead_of_defaults():
    keeping = converter(**{"schema.content": to_text(ROW), "replace.null.with.default": "false"})
    assert keeping.to_connect("t", pa.array([b'{"a":1,"b":null}']))[0].to_pylist() == [{"a": 1, "b": None}]
    written = keeping.from_connect("t", pa.array([{"a": 1, "b": None}], to_arrow(ROW)),
                                   {SCHEMA_KEY: to_text(ROW).encode()})[0].as_py()
    assert json.loads(written)["payload"] == {"a": 1, "b": None}
    with pytest.raises(DataError, match="required"):
        keeping.to_connect("t", pa.array([b'{"a":null}']))


def read(schema, *payloads):
    records = [f'{{"schema":{to_text(schema)},"payload":{payload}}}'.encode() for payload in payloads]
    return converter().to_connect("t", pa.array(records))[0].to_pylist()


DAYS = Schema(Type.INT32, name=DATE, version=1)
NUMBERS = Schema(Type.MAP, key=Schema(Type.INT32), value=Schema(Type.INT32))


@pytest.mark.parametrize(("schema", "good", "bad"), [
    (DAYS, "1", "1099511627776"), (DAYS, "1", "4294967296"), (NUMBERS, "[[1,2],[3,4]]", "[[1,2],[3]]"),
    (NUMBERS, "[[1,2],[3,4]]", "[[1,2],7]"),
    (Schema(Type.ARRAY, value=NUMBERS), "[[[1,2]],[[3,4]]]", "[[],[[1,2],[]]]"),
    (PRICE, "1.5", '"!"'), (PRICE, "1.5", "1e999999999"), (PRICE, "1.5", '""'),
    (PRICE, "1.5", f'"{base64.b64encode(b"x" * 700_000).decode()}"'),
])
def test_a_bad_payload_is_the_only_bad_record(schema, good, bad):
    """The error used to name the first record, or one that there was not, for some of them; the last one took hours."""
    with pytest.raises(BadRowError) as error:
        read(schema, good, good, bad, good)
    assert error.value.row == 2


def test_bytes_of_decimals_may_have_escapes():
    """As some libraries write the plus sign and the slash."""
    unscaled = int.from_bytes(b"\xfb\xff\xbf", "big", signed=True)
    assert read(PRICE, '"+/+/"', '"\\u002b\\/\\u002B/"') == [Decimal(unscaled).scaleb(-2)] * 2


@pytest.mark.parametrize("parameters", [
    {"scale": "x"}, {"scale": "9" * 30}, {"scale": "999999999"}, {"scale": "2", "connect.decimal.precision": "x"}])
def test_a_decimal_with_invalid_parameters_is_refused(parameters):
    with pytest.raises(DataError, match="Decimal"):
        read(replace(PRICE, parameters=tuple(parameters.items())), "1.5")


@pytest.mark.parametrize("number", ["1e999999999999999999", "1e-999999999", "0." + "0" * 600 + "1", "9" * 600])
def test_a_number_that_a_decimal_does_not_have_is_a_bad_row(number):
    with pytest.raises(BadRowError, match="Invalid value for Decimal field") as bad:
        read(PRICE, "1.5", number)
    assert bad.value.row == 1


def test_numbers_with_many_zeros_are_exact():
    """PyArrow reads past a table of powers of ten if scales are far apart."""
    assert read(PRICE, "123." + "0" * 600, "0e-999999999") == [Decimal(123), Decimal(0)]


def of(kind, **more):
    return {"type": kind, **more}


A = {"field": "a", "type": "int32"}
DECIMALS = of("bytes", name=DECIMAL, parameters={"scale": "2"})
IN_MAP = of("map", keys=of("int32"), values=of("int32"))


@pytest.mark.parametrize(("schema", "payload", "message"), [
    (of("bytes"), "!!!!", "Invalid bytes field"),
    (DECIMALS, "1.234", "Invalid bytes for Decimal field"),
    (DECIMALS, True, "Invalid type for Decimal, underlying representation should be numeric or bytes but was BOOLEAN"),
    (of("bytes", name=DECIMAL), "AQ==", "Invalid bytes for Decimal field"),
    (of("int32", name=DATE), "5", "Invalid type for Date, underlying representation should be integer but was STRING"),
    (of("int32", name=DATE), 2**31,
     "Invalid type for Date, underlying representation should be integer but was NUMBER"),
    (of("int32", name=DATE, default="5"), None,
     "Invalid type for Date, underlying representation should be integer but was STRING"),
    (of("int32", name=TIME), [5], "Invalid type for Time, underlying representation should be integer but was ARRAY"),
    (of("int64", name=TIMESTAMP), 1.5,
     "Invalid type for Timestamp, underlying representation should be integral but was NUMBER"),
    (of("int32", name=TIME), -5, "Time values must use number of milliseconds greater than 0 and less than 86400000"),
    (IN_MAP, [[1, 2, 3]], "Found invalid map entry, expected length 2 but found :3"),
    (IN_MAP, [[1, 2], 1], "Found invalid map entry instead of array tuple: NUMBER"),
    (IN_MAP, {"1": 2}, "Maps with non-string fields should be encoded as JSON array of tuples, but found OBJECT"),
    (of("map", keys=of("string"), values=of("int32")), [["a", 1]],
     "Maps with string fields should be encoded as JSON objects, but found ARRAY"),
    (of("struct", fields=[A]), {}, "Invalid null value for required INT32 field"),
    (of("array", items=of("struct", fields=[A])), [{"a": 1}, {}], "Invalid null value for required INT32 field"),
    (of("struct", fields=[A]), [1], "Structs should be encoded as JSON objects, but found ARRAY"),
    (of("struct", fields=[1]), {}, "Struct schema's field name not specified properly"),
    (of("struct", fields=[{"field": "", "type": "int32"}]), {"": 1}, "fieldName cannot be null."),
    (of("struct", fields=[A, A]), {"a": 1}, "Cannot create field because of field name duplication a"),
])
def test_messages_for_dead_letters_are_javas(schema, payload, message):
    """As tests/interop/test_dead_letters.py finds them in the letters of a Java worker."""
    text = json.dumps({"schema": schema, "payload": payload}).encode()
    with pytest.raises(DataError) as raised:
        converter().to_connect("t", pa.array([text]))
    error = reason_of(raised.value)
    assert (error.java_message or str(error)) == message
    builder = message.startswith(("fieldName", "Cannot create"))
    assert error.java_class.endswith(".SchemaBuilderException" if builder else ".DataException")


def test_all_records_without_an_envelope_are_named():
    """So they need not be searched for: in a topic without schemas, that is every record."""
    good = b'{"schema":null,"payload":1}'
    values = [b'{"a":1}', good, b"5", None, b'{"schema":null}', b'{"schema":null,"payload":1,"b":2}', b'{"payload":1}',
              b"[]"]
    with pytest.raises(BadRowsError) as bad:
        converter().to_connect("t", pa.array(values))
    assert [row for row, _ in bad.value.bad] == [0, 2, 4, 5, 6, 7]
    assert all("schemas.enable" in str(error) for _, error in bad.value.bad)


def test_an_envelope_is_good_beside_records_with_thousands_of_names():
    good = b'{"schema":{"type":"int32","optional":false},"payload":1}'
    with pytest.raises(BadRowsError) as bad:
        converter().to_connect("t", pa.array([good, *(b'{"name %d":1}' % n for n in range(3000)), good]))
    assert [row for row, _ in bad.value.bad] == list(range(1, 3001))


def test_the_names_of_an_envelope_may_have_escapes():
    values = [rb'{"schema":null,"payload":1}', rb'{"\u0073chema":null,"p\u0061yload":2}',
              rb'{"payload":7,"schema":null,"payl\u006fad":3}']
    assert converter().to_connect("t", pa.array(values))[0].to_pylist() == [1, 2, 3]
    with pytest.raises(BadRowsError) as bad:
        converter().to_connect("t", pa.array([*values, rb'{"\u0073chemas":null,"payload":2}']))
    assert [row for row, _ in bad.value.bad] == [3]


def test_all_records_with_an_invalid_schema_are_named():
    wrong, good = b'{"schema":{"type":"nope"},"payload":1}', b'{"schema":{"type":"int32"},"payload":1}'
    for values, rows in (([wrong, None, wrong], [0, 2]), ([good, wrong, good, wrong], [1, 3])):
        with pytest.raises(BadRowsError) as bad:
            converter().to_connect("t", pa.array(values))
        assert [row for row, _ in bad.value.bad] == rows


WIDE = Schema(Type.STRUCT, fields=tuple(Field(f"f{i}", Schema(Type.INT32)) for i in range(1500)))


def test_a_struct_may_have_thousands_of_fields():
    """All records with more than a thousand were bad records."""
    values = {f"f{i}": i for i in range(1500)}
    fixed = converter(**{"schema.content": to_text(WIDE)})
    found, _ = fixed.to_connect("t", pa.array([json.dumps(values).encode()] * 2))
    assert found.to_pylist() == [values] * 2


def test_a_struct_may_have_thousands_of_members_that_are_not_declared():
    schema = Schema(Type.STRUCT, fields=(Field("a", Schema(Type.INT32)), Field('ä"', Schema(Type.INT32))))
    texts = [json.dumps({f"x{row}-{i}": i for i in range(1500)} | {"a": row, 'ä"': 2}).encode() for row in range(3)]
    found, _ = converter(**{"schema.content": to_text(schema)}).to_connect("t", pa.array(texts))
    assert found.to_pylist() == [{"a": row, 'ä"': 2} for row in range(3)]


def test_a_null_in_a_required_field_is_refused_beside_a_null_struct_too():
    """Both records were written, with "a":null."""
    schema = Schema(Type.STRUCT, optional=True, fields=(
        Field("a", Schema(Type.INT32)), Field("in", replace(ROW, optional=True))))
    metadata = {SCHEMA_KEY: to_text(schema).encode()}

    def written(*values):
        found = converter().from_connect("t", pa.array(values, to_arrow(schema)), metadata)
        return [json.loads(one)["payload"] for one in found.to_pylist()]

    inside = {"a": 2, "b": "y"}
    assert written({"a": 1, "in": inside}, None, {"a": 1, "in": None}) == [
        {"a": 1, "in": inside}, None, {"a": 1, "in": None}]
    for bad in ({"a": None, "in": inside}, {"a": 1, "in": {"a": None, "b": "y"}}):
        with pytest.raises(DataError, match="null value for field that is required"):
            written(bad, None, {"a": 1, "in": None})


def test_a_default_is_a_number_if_decimals_are_numbers():
    """It was written in Base64, in the schema and in place of null."""
    schema = replace(PRICE, optional=True, default='"BNI="')
    written = converter(**{"decimal.format": "NUMERIC"}).from_connect(
        "t", pa.array([None, Decimal("1.50")], to_arrow(schema)), {SCHEMA_KEY: to_text(schema).encode()})
    found = [json.loads(one, parse_float=str) for one in written.to_pylist()]
    assert [one["payload"] for one in found] == ["12.34", "1.50"]
    assert found[0]["schema"]["default"] == "12.34"
    back, metadata = converter().to_connect("t", written)
    assert back.to_pylist() == [Decimal("12.34"), Decimal("1.50")]
    assert from_text(metadata[SCHEMA_KEY]) == schema


@pytest.mark.parametrize(("schema", "default"), [
    ({"type": "int32", "default": 1.7}, 1), ({"type": "int32", "default": "x"}, 0),
    ({"type": "double", "default": 1}, 1.0), ({"type": "string", "optional": True, "default": 5}, None),
    ({"type": "array", "items": {"type": "int32", "default": 3}, "default": [None, 1]}, [3, 1]),
    ({"type": "struct", "fields": [{"type": "int8", "default": 4, "field": "a"}], "default": {}}, {"a": 4}),
])
def test_a_default_is_read_as_a_value(schema, default):
    """It was written again as it had been read."""
    text = json.dumps({"schema": schema, "payload": None}).encode()
    found, metadata = converter().to_connect("t", pa.array([None, text]))
    written = converter().from_connect("t", found, metadata)
    envelope = json.loads(written[1].as_py())
    assert envelope["schema"].get("default") == default
    assert envelope["payload"] == default


@pytest.mark.parametrize("schema", [{"type": "string", "default": 5}, {"type": "bytes", "default": "%"},
                                    {"type": "int32", "name": DATE, "default": "x"},
                                    {"type": "int32", "name": DATE, "default": 99999999999}])
def test_a_schema_with_an_invalid_default_is_refused(schema):
    """As in Java, also where no value is missing."""
    texts = [json.dumps({"schema": schema, "payload": None}).encode()] * 2
    with pytest.raises(BadRowsError, match="invalid default") as bad:
        converter().to_connect("t", pa.array(texts))
    assert [row for row, _ in bad.value.bad] == [0, 1]


LISTED = Schema(Type.ARRAY, value=Schema(Type.INT32, name=TIME, version=1))


@pytest.mark.parametrize(("schema", "value", "payload"), [
    (Schema(Type.INT32, name=TIME, version=1), Moment(12345), "12345"),
    (Schema(Type.INT32, name=TIME, version=1), datetime(1970, 1, 1, 12, tzinfo=UTC), "43200000"),
    (Schema(Type.INT32, name=TIME, version=1), time(12), "43200000"),
    (Schema(Type.INT32, name=DATE, version=1), datetime(1970, 1, 3, tzinfo=UTC), "2"),
    (Schema(Type.INT32, name=DATE, version=1), date(1970, 1, 3), "2"),
    (Schema(Type.INT32, name=DATE, version=1), Moment(86_400_000 * 10**7), "10000000"),
    (Schema(Type.INT64, name=TIMESTAMP, version=1), Moment(7), "7"),
    (PRICE, Decimal("1.5"), '"AJY="'), (Schema(Type.FLOAT32), np.float32(0.1), "0.1"),
    (ROW, Struct(ROW, {"a": np.int32(1), "b": "y"}), '{"a":1,"b":"y"}'), (ROW, {"a": 1, "b": "y"}, '{"a":1,"b":"y"}'),
    (LISTED, [Moment(1), time(0, 0, 1)], "[1,1000]"),
    (Schema(Type.MAP, key=Schema(Type.STRING), value=PRICE.as_optional()), {"b": Decimal(2), "a": None},
     '{"b":"AMg=","a":null}'),
    (Schema(Type.MAP, key=Schema(Type.INT32), value=Schema(Type.INT32)), [(1, 2)], "[[1,2]]"),
    (Schema(Type.ARRAY, optional=True), None, "null"), (Schema(Type.INT32, default="7"), None, "7"),
    (None, np.float32(0.1), "0.1"), (None, {"b": [1, "x"], "a": np.int32(5)}, '{"b":[1,"x"],"a":5}'),
])
def test_headers_may_be_values_of_python_and_of_java(schema, value, payload):
    """HeaderFrom of a Time failed for each record."""
    written = converter().from_connect_header("t", "h", schema, value).decode()
    described = "null" if schema is None else to_text(schema)
    assert written == f'{{"schema":{described},"payload":{payload}}}'


@pytest.mark.parametrize("literal", [
    "[]", '[1,"a"]', "[true,1.5]", '[1.5,"x",null]', '[[2],[1,"x"]]', '["x",{"a":[1,"y"],"b":2}]'])
def test_a_list_without_a_type_of_its_elements_is_a_header(literal):
    """Most were bad records."""
    schema, value = parse_string(literal)
    written = converter().from_connect_header("t", "h", schema, value).decode()
    assert written == f'{{"schema":{to_text(schema)},"payload":{literal}}}'


@pytest.mark.parametrize(("literal", "key", "payload"), [
    ('{"a":1,"b":"x"}', "string", '{"a":1,"b":"x"}'), ('{"a":[1,"x"]}', "string", '{"a":[1,"x"]}'),
    ('{1:1,2:"x"}', "int8", '[[1,1],[2,"x"]]'),
])
def test_a_map_without_a_type_of_its_values_is_a_header(literal, key, payload):
    """Each such record was a bad one."""
    written = json.loads(converter().from_connect_header("t", "h", *parse_string(literal)))
    assert (written["schema"]["type"], written["schema"]["keys"]["type"]) == ("map", key)
    assert json.dumps(written["payload"], separators=(",", ":")) == payload
    plain = converter(**{"schemas.enable": "false"}).from_connect_header("t", "h", *parse_string(literal))
    assert plain.decode() == payload


@pytest.mark.parametrize(("schema", "value"), [
    *(parse_string(literal) for literal in ("{}", '[[1,"x"],[2]]')), (None, 2**70), (None, [1, object()]),
    (Schema(Type.ARRAY), {}), (Schema(Type.ARRAY), None), (Schema(Type.INT8), "x"),
])
def test_a_value_that_java_cannot_write_is_a_bad_record(schema, value):
    with pytest.raises(DataError, match=r"\w"):
        converter().from_connect_header("t", "h", schema, value)


@pytest.mark.parametrize(("key", "payload", "entries"), [
    (Schema(Type.BOOLEAN), "[[true,1],[false,2],[true,3]]", [(False, 2), (True, 3)]),
    (Schema(Type.FLOAT64), "[[1.5,1],[1.5,2],[0.5,3]]", [(1.5, 2), (0.5, 3)]),
    (Schema(Type.FLOAT32), "[[0.25,1],[0.25,2]]", [(0.25, 2)]),
    (Schema(Type.INT64, name=TIMESTAMP, version=1), "[[7,1],[7,2]]", [(datetime(1970, 1, 1, 0, 0, 0, 7000, UTC), 2)]),
    (PRICE, "[[1.5,1],[2,2],[1.50,3]]", [(Decimal("2.00"), 2), (Decimal("1.50"), 3)]),
    (Schema(Type.BYTES), '[["AA==",1],["AA==",2]]', [(b"\0", 1), (b"\0", 2)]),
])
def test_of_entries_with_equal_keys_the_last_one_is_kept(key, payload, entries):
    """For most types of keys, all were."""
    assert read(Schema(Type.MAP, key=key, value=Schema(Type.INT32)), payload, "[]") == [entries, []]


def test_a_map_with_a_null_key_is_a_bad_record():
    """Arrow ended the process."""
    with pytest.raises(BadRowError, match="null key") as bad:
        read(Schema(Type.MAP, key=Schema(Type.INT32, optional=True), value=Schema(Type.INT32)), "[[1,2]]",
             "[[3,4],[null,1]]")
    assert bad.value.row == 1


@pytest.mark.parametrize("key", ["int32", "double", "boolean"])
def test_a_default_with_a_null_key_is_refused(key):
    """Arrow ended the process, that of the worker too."""
    schema = of("map", keys=of(key, optional=True), values=of("int32"), default=[[None, 1]])
    with pytest.raises(ConfigError, match=r"schema\.content.*default"):
        converter(**{"schema.content": json.dumps(schema)})


NAMES = [f"f{i}" for i in range(1000)]


def test_members_may_have_any_order_and_many_names_of_a_size():
    names = [f"f{i}" for i in range(200)] + ["ä", 'q"', "same0", "same1"]
    schema = Schema(Type.STRUCT, fields=tuple(Field(name, Schema(Type.INT32, optional=True)) for name in names))
    others = ["", *names[100:], "f", "g0", "same2", "zzzzzzz", *names[:50]]
    orders = [names, names[::-1], names[::3], others, [], ["x"], names]
    rows = [dict.fromkeys(order, row) for row, order in enumerate(orders)]
    texts = [json.dumps(row, ensure_ascii=False).encode() for row in rows]
    found, _ = converter(**{"schema.content": to_text(schema)}).to_connect("t", pa.array(texts))
    assert found.to_pylist() == [{name: row.get(name) for name in names} for row in rows]


@pytest.mark.parametrize("others", [NAMES[::-1], [f"g{i}" for i in range(1000)], NAMES[::2] + NAMES[1::2]])
def test_members_in_another_order_or_that_are_not_declared_take_hardly_longer(others):
    """They took a hundred times as long."""
    times = []
    for order in (NAMES, others):
        tape = read_tape(pa.array([json.dumps(dict.fromkeys(order, 1)).encode()] * 20))
        times.append(min(timeit.repeat(partial(members_named, tape, tape.roots, NAMES), number=1, repeat=4)))
    assert times[1] < 20 * times[0]
