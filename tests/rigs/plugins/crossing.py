"""Plugins that only Python has, for chains that go through Java too."""

from __future__ import annotations

import json

import pyarrow as pa

from heeler import transform
from spark_tasks.data.columns import SCHEMA_KEY
from spark_tasks.data.schema import OPTIONAL_STRING, STRING
from spark_tasks.pipeline.converters.base import Converter, HeaderConverter

SCHEMA = {"type": "struct", "optional": False, "name": "acme.Pair", "fields": [
    {"field": "name", "type": "string", "optional": False}, {"field": "n", "type": "double", "optional": True}]}
TYPE = pa.struct([pa.field("name", pa.string(), nullable=False), pa.field("n", pa.float64())])


class Pair(Converter):
    """`a:1` is a struct of a name and a number."""

    version = "1"

    def configure(self, configs, *, is_key):
        pass

    def to_connect(self, topic, array, headers=None):
        rows = []
        for text in array.to_pylist():
            name, _, number = (text or b"").decode().partition(":")
            rows.append(None if text is None else {"name": name, "n": float(number) if number else float("nan")})
        return pa.array(rows, TYPE), {SCHEMA_KEY: json.dumps(SCHEMA).encode()}

    def from_connect(self, topic, array, metadata=None):
        raise NotImplementedError


class Numbered(Pair):
    """Writes numbers as digits, but not 14."""

    def from_connect(self, topic, array, metadata=None):
        if 14 in array.to_pylist():
            raise ValueError("it is fourteen")
        return pa.array([None if n is None else b"#%d" % n for n in array.to_pylist()], pa.binary())


class Shouted(HeaderConverter):
    """Texts in capitals."""

    version = "1"

    def configure(self, configs):
        pass

    def to_connect_header(self, topic, name, value):
        return STRING if value is not None else OPTIONAL_STRING, None if value is None else value.decode().upper()

    def from_connect_header(self, topic, name, schema, value):
        return None if value is None else str(value).upper().encode()


@transform
def stamp(record):
    """Marks texts, leaves out `drop`, cannot do `wrong`; other topics and headers too."""
    if record.value == "drop":
        return None
    if record.value == "wrong":
        raise ValueError("it is wrong")
    if isinstance(record.value, str):
        record.value += " 1"  # NoteSink reads a partition there
    record.headers.append(("stamped", b"yes"))
    record.topic += "-x"
    return record


@transform
def double(record):
    """Doubles numbers, leaves out 4, cannot do 2, sends 6 elsewhere."""
    if record.value == 4:
        return None
    if record.value == 2:
        raise ValueError("it is two")
    if record.value == 6:
        record.topic += "-six"
    if record.value is not None:
        record.value *= 2
    return record


@transform
def prefix(record):
    """Python's sign in front."""
    record.value = "py " + record.value
    return record
