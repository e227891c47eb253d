"""Reads and writes JSON texts where Confluent's JSON Schema converter differs from JsonConverter."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from typing_extensions import override

from spark_tasks.arrays.buffers import Bools, Ints
from spark_tasks.arrays.concatenation import JoinedField, join, join_members, null_like
from spark_tasks.data.arrow_types import to_arrow
from spark_tasks.data.columns import Metadata, struct_array
from spark_tasks.data.schema import Schema, Type
from spark_tasks.errors import DataError
from spark_tasks.pipeline.converters import json_kernels as kernels
from spark_tasks.pipeline.converters.base import BadRowError
from spark_tasks.pipeline.converters.json_columns import find_members, members_named
from spark_tasks.pipeline.converters.json_schema.names import has_text_keys, is_union
from spark_tasks.pipeline.converters.json_strings import literal
from spark_tasks.pipeline.converters.json_tape import (
    ABSENT,
    ARRAY,
    ESCAPED,
    FALSE,
    FLOAT,
    INT,
    KEY,
    NULL,
    OBJECT,
    STRING,
    TRUE,
)
from spark_tasks.pipeline.converters.json_typed import TypedReader, refuse
from spark_tasks.pipeline.converters.json_write import JsonWriter, lists

_KINDS = {
    Type.INT8: (INT,), Type.INT16: (INT,), Type.INT32: (INT,), Type.INT64: (INT,), Type.FLOAT32: (INT, FLOAT),
    Type.FLOAT64: (INT, FLOAT), Type.BOOLEAN: (TRUE, FALSE), Type.STRING: (STRING, ESCAPED), Type.BYTES: (),
    Type.ARRAY: (ARRAY,), Type.MAP: (OBJECT, ARRAY), Type.STRUCT: (),
}  # fmt: skip
_TEXTS = 1 << STRING | 1 << ESCAPED | 1 << KEY | 1 << NULL | 1 << ABSENT  # kinds of tokens
_SIMPLE = np.iinfo(np.int32).max  # more than the members that an object has in common with a struct


class ConfluentReader(TypedReader):
    """Reads maps whose keys are not strings from arrays of objects, and unions to structs. Only members of an outermost
    struct may lack: in Java, what is put into a struct must be complete. A value that is not a text counts as missing
    where the schema has one.
    """

    _in_struct = False

    @override
    def build(self, schema: Schema, tokens: Ints, *, tombstones: Bools | None = None) -> pa.Array:
        if schema.type is Type.STRING and kernels.kinds_of(self._tape.kinds, tokens) & ~_TEXTS:
            texts = np.isin(self._kinds(tokens), (STRING, ESCAPED, KEY, NULL))
            tokens = np.where(texts, tokens, -1).astype(np.int32)
        return super().build(schema, tokens, tombstones=tombstones)

    @override
    def _values(self, schema: Schema, tokens: Ints) -> pa.Array:
        outside = self._may_lack, self._in_struct
        self._may_lack = self._may_lack and not self._in_struct
        self._in_struct = self._in_struct or schema.type is Type.STRUCT
        try:
            return self._union(schema, tokens) if is_union(schema) else super()._values(schema, tokens)
        finally:
            self._may_lack, self._in_struct = outside

    @override
    def _pairs(self, tokens: Ints) -> tuple[Ints, Ints, Ints]:
        self._require(tokens, (ARRAY,), "Maps with non-string fields should be encoded as JSON array of objects")
        offsets, entries = self._items(tokens)
        self._require(entries, (OBJECT,), "Found invalid map entry instead of object", offsets)
        found = find_members(self._tape, entries)
        if found is None:
            raise DataError("the entries of maps have too many distinct members (thousands)")
        names, cells = found
        wrong = np.zeros(len(entries), np.bool_)
        for name, cell in zip(names, cells, strict=True):
            wrong |= (cell >= 0) if name not in ("key", "value") else (cell < 0)
        if not {"key", "value"} <= set(names):
            wrong[:] = True
        refuse(wrong, "Found invalid map entry, expected the members key and value", offsets)
        if not len(entries):
            return offsets, entries, entries
        return offsets, cells[names.index("key")].copy(), cells[names.index("value")].copy()

    def _union(self, schema: Schema, tokens: Ints) -> pa.Array:
        """Sets the first field of the value's type; for objects, the field whose schema has most of their members, at
        any depth.
        """
        kinds = self._kinds(tokens)
        chosen, best = np.full(len(tokens), -1, np.int32), np.zeros(len(tokens), np.int32)
        objects = kinds == OBJECT
        for index, field in enumerate(schema.fields):
            simple = np.isin(kinds, _KINDS[field.schema.type]) & (best < _SIMPLE)
            chosen[simple], best[simple] = index, _SIMPLE
            if field.schema.type is Type.STRUCT and objects.any():
                matches = self._matches(field.schema, tokens)
                better = matches > best
                chosen[better], best[better] = index, matches[better]
        if (chosen < 0).any():
            raise BadRowError(int(np.argmax(chosen < 0)), "Did not find matching oneof field for data")
        columns = [self._chosen(field.schema, tokens, chosen == i) for i, field in enumerate(schema.fields)]
        return struct_array(columns, list(to_arrow(schema)), len(tokens), None)

    def _matches(self, schema: Schema, tokens: Ints) -> Ints:
        """Returns how many members each object has in common with the struct, and their objects with its structs."""
        matches = np.zeros(len(tokens), np.int32)
        objects = np.flatnonzero((tokens >= 0) & (self._kinds(tokens) == OBJECT))
        if not len(objects):
            return matches
        cells = members_named(self._tape, tokens[objects], [member.name for member in schema.fields])
        matches[objects] = (cells >= 0).sum(axis=0)
        for member, cell in zip(schema.fields, cells, strict=True):
            if member.schema.type is Type.STRUCT:
                matches[objects] += self._matches(member.schema, cell)
        return matches

    def _chosen(self, schema: Schema, tokens: Ints, mine: Bools) -> pa.Array:
        """Returns the values of the rows that are `mine`, null in all others."""
        if not mine.any():
            return pa.nulls(len(tokens), to_arrow(schema))
        rows = np.flatnonzero(mine)
        try:
            found = self.build(schema, tokens[rows])
        except BadRowError as bad:
            raise BadRowError(int(rows[bad.row]), bad) from None
        return found.take(pa.array(np.cumsum(mine) - 1, mask=~mine))


class ConfluentWriter(JsonWriter):
    """Writes no member for null if the schema requires a value."""

    @override
    def write(self, array: pa.Array, schema: Schema | None, metadata: Metadata | None = None) -> pa.Array:
        """Returns the texts; also where the schema requires a value, null becomes the text null."""
        optional = schema.as_optional() if schema is not None and array.null_count else schema
        return super().write(array, optional, metadata)

    @override
    def _typed(self, array: pa.Array, schema: Schema) -> pa.Array:
        if schema.type is Type.STRUCT and pa.types.is_struct(array.type):
            children = dict(zip((field.name for field in array.type), array.flatten(), strict=True))
            if is_union(schema):
                return pc.coalesce(*(self._typed(children[field.name], field.schema) for field in schema.fields))
            members = [self._member(field.name, children[field.name], field.schema) for field in schema.fields]
            return null_like(array, join_members(members, "{", ",", "}", len(array)))
        if schema.type is Type.MAP and not has_text_keys(schema) and schema.key and schema.value:
            offsets = np.asarray(array.offsets)
            first, count = int(offsets[0]), int(offsets[-1] - offsets[0])
            keys = self.write(array.keys.slice(first, count), schema.key)
            values = self.write(array.items.slice(first, count), schema.value)
            return lists(array, join('{"key":', keys, ',"value":', values, "}"))
        return super()._typed(array, schema)

    def _member(self, name: str, child: pa.Array, schema: Schema) -> JoinedField:
        filled = schema.default is not None and self._replace_nulls
        left_out = not schema.optional and not filled and child.null_count > 0
        text = self._typed(child, schema) if left_out else self.write(child, schema)
        return JoinedField(literal(name) + ":", text, optional=left_out)
