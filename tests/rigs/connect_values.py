"""Any schemas of Connect and values of them, for properties of converters."""

from __future__ import annotations

import base64
import dataclasses
import itertools
import math
from decimal import Decimal

import pyarrow as pa
from hypothesis import strategies as st

from spark_tasks.data.arrow_types import PRECISION, to_arrow
from spark_tasks.data.schema import DATE, DECIMAL, TIME, TIMESTAMP, Field, Schema, Type
from spark_tasks.java.json import java_json
from spark_tasks.pipeline.converters.avro import names as n

WORDS = st.text("abcXYZ_", min_size=1, max_size=6)
TEXTS = st.text(max_size=8)
FLOATS = st.floats(width=32)
PLAIN = {
    Type.INT8: st.integers(-128, 127), Type.INT16: st.integers(-(2**15), 2**15 - 1),
    Type.INT32: st.integers(-(2**31), 2**31 - 1), Type.INT64: st.integers(-(2**63), 2**63 - 1),
    Type.FLOAT32: FLOATS, Type.FLOAT64: st.floats(), Type.BOOLEAN: st.booleans(), Type.STRING: TEXTS,
    Type.BYTES: st.binary(max_size=6),
}
LOGICAL = [
    (Schema(Type.INT32, name=DATE, version=1), st.integers(-20_000, 40_000)),
    (Schema(Type.INT32, name=TIME, version=1), st.integers(0, 86_399_999)),
    (Schema(Type.INT64, name=TIMESTAMP, version=1), st.integers(-(10**13), 10**13)),
]


def decimals(scale, precision):
    parameters = (("scale", str(scale)), *(((PRECISION, str(precision)),) if precision else ()))
    digits = precision or 38
    values = st.integers(-(10**digits) + 1, 10**digits - 1).map(
        lambda number: Decimal((int(number < 0), tuple(map(int, str(abs(number)))), -scale)))
    return Schema(Type.BYTES, name=DECIMAL, version=1, parameters=parameters), values


@st.composite
def leaves(draw):
    which = draw(st.integers(0, 3))
    if which == 0:
        return draw(st.sampled_from(LOGICAL))
    if which == 1:
        return decimals(draw(st.integers(0, 10)), draw(st.sampled_from([None, 10, 20, 50])))
    if which == 2 and draw(st.booleans()):
        symbols = draw(st.lists(WORDS, min_size=1, max_size=4, unique=True))
        parameters = ((n.ENUM, ""), *((f"{n.ENUM}.{one}", one) for one in symbols))
        return Schema(Type.STRING, name="e", parameters=parameters), st.sampled_from(symbols)
    kind = draw(st.sampled_from(list(PLAIN)))
    schema, values = Schema(kind), PLAIN[kind]
    if draw(st.booleans()):
        value = draw(values)
        odd = isinstance(value, float) and not math.isfinite(value)
        shown = base64.b64encode(value).decode() if isinstance(value, bytes) else value
        if not odd and kind is not Type.FLOAT32:
            schema = Schema(kind, default=java_json(shown), doc=draw(st.none() | TEXTS))
    return schema, values


def optional(draw, pair):
    schema, values = pair
    return (schema.as_optional(), st.none() | values) if draw(st.booleans()) else pair


@st.composite
def containers(draw, inner):
    schema, values = optional(draw, draw(inner))
    match draw(st.integers(0, 3)):
        case 0:
            return Schema(Type.ARRAY, value=schema), st.lists(values, max_size=3)
        case 1:
            keys = st.dictionaries(TEXTS, values, max_size=3).map(lambda found: list(found.items()))
            return Schema(Type.MAP, key=Schema(Type.STRING), value=schema), keys
        case 2:
            pairs = st.dictionaries(PLAIN[Type.INT32], values, max_size=3).map(lambda found: list(found.items()))
            return Schema(Type.MAP, name="m", key=Schema(Type.INT32), value=schema), pairs
    return draw(structs(inner))


@st.composite
def structs(draw, inner):
    names = draw(st.lists(WORDS, max_size=4, unique=True))
    parts = [optional(draw, draw(inner)) for _ in names]
    fields = tuple(Field(name, schema) for name, (schema, _) in zip(names, parts, strict=True))
    schema = Schema(Type.STRUCT, name="s", fields=fields)
    values = st.fixed_dictionaries({name: values for name, (_, values) in zip(names, parts, strict=True)})
    return schema, values


PAIRS = structs(st.recursive(leaves(), containers, max_leaves=6))


def named(schema, names):
    """The schema with a name of its own for each named type: what `names` makes of the letter of its kind."""
    changes = {
        "fields": tuple(Field(field.name, named(field.schema, names)) for field in schema.fields),
        "key": schema.key and named(schema.key, names), "value": schema.value and named(schema.value, names),
    }
    if schema.name in ("e", "m", "s"):
        changes["name"] = names(schema.name)
    if schema.name == "e":
        changes["parameters"] = ((n.ENUM, changes["name"]), *schema.parameters[1:])
    return dataclasses.replace(schema, **changes)


@st.composite
def records(draw, pairs=PAIRS, name="{letter}.N{number}"):
    """A schema and some values of it, of these pairs. `name`: of its named types."""
    schema, values = draw(pairs)
    numbers = itertools.count()
    with_names = named(schema, lambda letter: name.format(letter=letter, number=next(numbers)))
    return with_names, draw(st.lists(values, max_size=5))


def arrow(values, schema):
    """Of values in which moments are numbers."""
    kind = to_arrow(schema)
    plain = _plain(kind)
    return pa.array(values, plain).cast(kind)


def _plain(kind):
    if pa.types.is_date(kind) or pa.types.is_time(kind):
        return pa.int32()
    if pa.types.is_timestamp(kind):
        return pa.int64()
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_plain(field.type)) for field in kind])
    if pa.types.is_map(kind):
        return pa.map_(kind.key_type, kind.item_field.with_type(_plain(kind.item_type)))
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_plain(kind.value_type)))
    return kind


def same(one, other):
    """NaN is like NaN; the order of a map's entries is Java's after a trip."""
    if isinstance(one, float) and isinstance(other, float):
        return one == other or (math.isnan(one) and math.isnan(other))
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list) and one and isinstance(one[0], tuple):
        return same(dict(one), dict(other))
    if isinstance(one, list):
        return len(one) == len(other) and all(map(same, one, other))
    return one == other
