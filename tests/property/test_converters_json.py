"""JSON is converted identically in columns and record by record, for any records."""

import base64
import json
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from spark_tasks.data.arrow_types import to_arrow
from spark_tasks.data.columns import SCHEMA_KEY
from spark_tasks.data.schema import DECIMAL, Field, Schema, Type, from_text, to_text
from spark_tasks.errors import DataError
from spark_tasks.java.hash import hash_order
from spark_tasks.java.json import java_json
from spark_tasks.limits import MAX_DEPTH
from spark_tasks.pipeline.converters import json_text
from spark_tasks.pipeline.converters.base import BadRowError, BadRowsError
from spark_tasks.pipeline.converters.java_column_text import java_string, to_texts
from spark_tasks.pipeline.converters.json import JsonConverter
from spark_tasks.pipeline.converters.json_columns import parse_columns
from spark_tasks.pipeline.converters.python_values import to_python

# Single letters that fall into buckets of their own: in which order a HashMap returns keys of one bucket depends on
# the order in which they came, and a column has one order for all its rows.
KEYS = st.sampled_from("abcdefghijkl")
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.integers(-100, 100),
    st.floats(allow_nan=False, allow_infinity=False),
    st.floats(allow_nan=False, allow_infinity=False, width=16),
    st.text(max_size=8),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(KEYS, inner, max_size=5)),
    max_leaves=12,
)
ROWS = st.one_of(
    st.lists(VALUES, max_size=8),
    st.lists(st.dictionaries(KEYS, SCALARS, max_size=6), max_size=12),
    st.lists(st.fixed_dictionaries({"a": st.integers(-9, 9), "b": st.text(max_size=5), "c": SCALARS}), max_size=12),
)


def converter(**config):
    found = JsonConverter()
    found.configure({"schemas.enable": "false", **config}, is_key=False)
    return found


def check(texts):
    array, metadata = parse_columns(pa.array(texts, pa.binary()))
    parsed = [None if text is None else json_text.parse(text) for text in texts]
    shown = to_texts(array, metadata).to_pylist()
    assert ["null" if text is None else text for text in shown] == [java_string(value) for value in parsed]
    assert to_python(array, metadata) == parsed
    written = converter().from_connect("t", array, metadata).to_pylist()
    expected = [None if value is None else java_json(value, hash_order).encode() for value in parsed]
    assert written == expected


def test_null_among_values_of_mixed_types_stays_null():
    check([b"null", b"1", b'"a"', b'{"a":null}', b"{}"])
    enveloped = [b'{"schema":null,"payload":%b}' % payload for payload in (b"null", b"1", b'"a"')]
    found = JsonConverter()
    found.configure({"schemas.enable": "true"}, is_key=False)
    array, metadata = found.to_connect("t", pa.array(enveloped, pa.binary()))
    assert array.to_pylist() == [None, "1", '"a"']
    assert found.from_connect("t", array, metadata).to_pylist() == [None, *enveloped[1:]]


def test_keys_in_one_hash_bucket_keep_the_order_of_the_complete_map():
    check([b'{"a.b":1}', '{"ä":null,"a.b":2}'.encode(), None, '{"ä":3}'.encode()])
    check(['[{"a.b":1},{"ä":null,"a.b":2}]'.encode()])


@given(ROWS, st.booleans(), st.booleans())
def test_columns_and_single_records_convert_identically(rows, ascii_only, spaces):
    separators = (" ,\t", " :\n") if spaces else (",", ":")
    check([json.dumps(row, ensure_ascii=ascii_only, separators=separators).encode("utf-8", "replace") for row in rows])


ODD = st.sampled_from([
    b'{"a":1,"a":2}', b'{"a":{"b":1,"b":2},"c":3}', b'{"\\u0061":1}', b"007", b"[01]", b'{"a":1} rest', b"", b" ",
    b'"\\ud800"', b'"\\ud83d\\ude00"', b"1e400", b"-0.0", b"-0", b"\xef\xbb\xbf[1]", None, b'{"a":1e99999}',
    b"null", b'{"a":[{"b":1,"b":[]}]}',
])  # fmt: skip

NO_JSON = st.sampled_from([b"{", b"nope", b'"\xff"', b'{"a":"\xff"}', b'{"a":[1,{"b":2]}'])


@given(st.lists(st.one_of(ODD, VALUES.map(lambda value: json.dumps(value).encode())), max_size=10))
def test_invalid_and_unusual_json_is_converted_identically_in_columns(texts):
    check(texts)


@example([b"{", b'{"a":1}', b'"\xff"', None, b'{"b":"c"}'], True)
@example([b"{", b'{"\\u0061":1}'], False)
@given(
    st.lists(st.one_of(ODD, NO_JSON, VALUES.map(lambda value: json.dumps(value).encode())), max_size=10), st.none()
)
def test_the_rest_of_a_column_with_bad_texts_is_the_column_of_the_other_texts(texts, is_given):
    """Unless some of them have to be rewritten."""
    array = pa.array(texts, pa.binary())
    try:
        parse_columns(array)
    except BadRowsError as error:
        bad, rest = [row for row, _ in error.bad], error.rest
    else:
        return
    assert is_given in {None, rest is not None}
    if rest is not None:
        (found, metadata), others = rest(), array.take(pa.array(np.delete(np.arange(len(texts)), bad)))
        expected, expected_metadata = parse_columns(others)
        assert found.equals(expected)
        assert (found.type, metadata) == (expected.type, expected_metadata)


@given(
    st.one_of(
        st.binary(max_size=30), st.text(alphabet='{}[]":,\\ntrufalse0123456789.eE+- u', max_size=20).map(str.encode)
    )
)
def test_the_tape_and_the_parser_accept_the_same_json(text):
    try:
        expected = json_text.parse(text)
    except DataError:
        expected = DataError
    try:
        array, metadata = parse_columns(pa.array([b"{}", text, b"{}"], pa.binary()))
        found = to_python(array, metadata)[1]
    except BadRowError as bad:
        found = DataError if bad.row == 1 else bad
    assert found == expected


PLAIN = {
    Type.INT8: st.integers(-128, 127), Type.INT16: st.integers(-(2**15), 2**15 - 1),
    Type.INT32: st.integers(-(2**31), 2**31 - 1), Type.INT64: st.integers(-(2**63), 2**63 - 1),
    Type.FLOAT32: st.floats(width=32, allow_nan=False, allow_infinity=False), Type.BOOLEAN: st.booleans(),
    Type.FLOAT64: st.floats(allow_nan=False, allow_infinity=False), Type.STRING: st.text(max_size=6),
    Type.BYTES: st.binary(max_size=6),
}  # fmt: skip


@st.composite
def schemas(draw, depth=2):
    kind = draw(st.sampled_from([*PLAIN, *((Type.ARRAY, Type.MAP, Type.STRUCT) if depth else ())]))
    inner = schemas(depth=depth - 1) if depth else st.nothing()
    fields = ()
    if kind is Type.STRUCT:
        fields = tuple(Field(name, draw(inner)) for name in draw(st.lists(KEYS, unique=True, max_size=4)))
    return Schema(
        kind, optional=draw(st.booleans()), fields=fields,
        key=Schema(Type.STRING) if kind is Type.MAP else None,
        value=draw(inner) if kind in (Type.MAP, Type.ARRAY) else None,
    )  # fmt: skip


def values_of(schema):
    if schema.type is Type.STRUCT:
        found = st.fixed_dictionaries({field.name: values_of(field.schema) for field in schema.fields})
    elif schema.type is Type.ARRAY:
        found = st.lists(values_of(schema.value), max_size=3)
    elif schema.type is Type.MAP:
        found = st.dictionaries(KEYS, values_of(schema.value), max_size=3).map(lambda found: sorted(found.items()))
    else:
        found = PLAIN[schema.type]
    return st.one_of(st.none(), found) if schema.optional else found


@given(st.data())
def test_typed_values_survive_json(data):
    schema = data.draw(schemas())
    values = data.draw(st.lists(values_of(schema), min_size=1, max_size=6))
    array = pa.array(values, to_arrow(schema))
    whole = converter(**{"schemas.enable": "true"})
    written = whole.from_connect("t", array, {SCHEMA_KEY: to_text(schema).encode()})
    found, metadata = whole.to_connect("t", written)
    assert from_text(metadata[SCHEMA_KEY]) == schema
    if schema.type is Type.MAP or any(True for _ in maps_in(schema)):
        again = whole.from_connect("t", found, metadata)
        assert [json.loads(text) for text in again.to_pylist()] == [json.loads(text) for text in written.to_pylist()]
    else:
        zero = str(found.to_pylist()).replace("-0.0", "0.0")  # Java goes through BigDecimal: no negative zero
        assert zero == str(array.to_pylist()).replace("-0.0", "0.0")
    assert found.type == array.type


def maps_in(schema):
    inner = [schema.value, *(field.schema for field in schema.fields)]
    for one in inner:
        if one is not None:
            if one.type is Type.MAP:
                yield one
            yield from maps_in(one)


@given(schemas())
def test_schemas_survive_their_json(schema):
    assert from_text(to_text(schema)) == schema


@pytest.mark.parametrize("form", ["BASE64", "NUMERIC"])
@pytest.mark.parametrize(("digits", "scale"), [(29, 0), (38, 2), (38, 38), (76, 30)])
def test_decimals_of_any_length_are_exact(digits, scale, form):
    """More than the 28 digits to which Python rounds."""
    parameters = (("scale", str(scale)), ("connect.decimal.precision", str(digits)))
    schema = Schema(Type.BYTES, name=DECIMAL, version=1, parameters=parameters)
    figures = ("123456789" * 9)[:digits]
    for sign in ("", "-"):
        value = Decimal(f"{sign}{figures}E-{scale}")
        array = pa.array([value], to_arrow(schema))
        whole = converter(**{"schemas.enable": "true", "decimal.format": form})
        written = whole.from_connect("t", array, {SCHEMA_KEY: to_text(schema).encode()})
        said = json.loads(written[0].as_py(), parse_float=Decimal)["payload"]
        if form == "BASE64":
            assert int.from_bytes(base64.b64decode(said), "big", signed=True) == int(f"{sign}{figures}")
        else:
            assert said == value
        found, _ = whole.to_connect("t", written)
        assert found.to_pylist() == [value]


DEEPEST = st.lists(st.sampled_from(["[%s]", '{"a":%s}', '[%s,1,"x",[]]', '{"a":%s,"b":{}}', '{"\\u0061":%s}']),
                   min_size=MAX_DEPTH - 1, max_size=MAX_DEPTH - 1)


def nested(levels):
    text = "1"
    for level in levels:
        text = level.replace("%s", text)
    return text.encode()


@settings(max_examples=settings().max_examples // 3, deadline=None)  # one takes a third of a second
@given(st.lists(DEEPEST, min_size=1, max_size=3))
def test_values_of_the_maximum_depth_pass_every_stage(rows):
    texts = [nested(levels) for levels in rows]
    array, metadata = parse_columns(pa.array(texts, pa.binary()))
    assert to_python(array, metadata) == [json_text.parse(text) for text in texts]
    assert len(to_texts(array, metadata)) == len(texts)
    assert None not in converter().from_connect("t", array, metadata).to_pylist()


@pytest.mark.parametrize("depth", [MAX_DEPTH + 1, 500, 990, 1001, 100_000])
@pytest.mark.parametrize("pair", ["[]", ('{"a":', "}")], ids=["lists", "objects"])
def test_a_value_that_nests_too_deeply_is_a_bad_record(depth, pair):
    deep = (pair[0] * depth + "1" + pair[1] * depth).encode()
    for config, around in (({}, b"%s"), ({"schemas.enable": "true"}, b'{"schema":null,"payload":%s}'),
                           ({"schemas.enable": "true"}, b'{"schema":%s,"payload":null}')):
        with pytest.raises(BadRowError, match="levels deep") as caught:
            converter(**config).to_connect("t", pa.array([b'{"schema":null,"payload":1}', around % deep], pa.binary()))
        assert caught.value.row == 1
    schema = '{"type":"array","items":' * depth + '{"type":"int8"}' + "}" * depth
    with pytest.raises(DataError, match=r"levels deep|not valid JSON"):
        from_text(schema)
