"""Converts JSON payloads with a Connect schema to Arrow columns, with the coercions of JsonConverter.

It coerces silently where Jackson's accessors do: the text "x" read as an int is 0, a number read as a text is null.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable
from decimal import Decimal
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_tasks.arrays.buffers import Bools, Ints, bool_array, number_array
from spark_tasks.data.arrow_types import DEFAULT_PRECISION, EXACT, MAX_DECIMAL_BITS, fitting_decimal, to_arrow
from spark_tasks.data.columns import struct_array
from spark_tasks.data.schema import DATE, DECIMAL, TIME, TIMESTAMP, Schema, Type
from spark_tasks.errors import ConnectError, DataError
from spark_tasks.pipeline.converters import json_kernels as kernels
from spark_tasks.pipeline.converters import long_decimals
from spark_tasks.pipeline.converters.base import BadRowError
from spark_tasks.pipeline.converters.json_columns import integers, members_named, raw, read_tape, strings
from spark_tasks.pipeline.converters.json_tape import ARRAY, ESCAPED, FLOAT, INT, KEY, OBJECT, STRING, Tape
from spark_tasks.pipeline.converters.maps import map_array
from spark_tasks.pipeline.converters.times import check_times

_NODES = {INT: "NUMBER", FLOAT: "NUMBER", STRING: "STRING", ESCAPED: "STRING", OBJECT: "OBJECT", ARRAY: "ARRAY"}
_BAD_DECIMAL = "Invalid bytes for Decimal field"
_BETWEEN_UNITS = re.compile(r"[\0- ]+|(?<==)(?!=)")
_INTEGERS: dict[Type, Any] = {Type.INT8: np.int8, Type.INT16: np.int16, Type.INT32: np.int32, Type.INT64: np.int64}


class TypedReader:
    """Builds columns by schema. `replace_nulls`: replace.null.with.default. `may_lack`: missing members are null even
    if the schema requires them. `exact`: a float may be NaN, infinite or negative zero, which JsonConverter reads as 0.
    """

    def __init__(self, tape: Tape, *, replace_nulls: bool = True, may_lack: bool = False, exact: bool = False) -> None:
        self._exact = exact
        self._tape = tape
        self._replace_nulls = replace_nulls
        self._may_lack = may_lack

    def build(self, schema: Schema, tokens: Ints, *, tombstones: Bools | None = None) -> pa.Array:
        """Returns the values at `tokens`. The token -1 (no such member) and JSON null are null. `tombstones`: true for
        records without a value, which are null even if the schema requires one. Raises BadRowError with the position in
        `tokens`.
        """
        present = self._are_present(tokens)
        if present.all():
            return self._values(schema, tokens)
        default = schema.default is not None and self._replace_nulls
        missing = ~present if tombstones is None else ~present & ~tombstones
        wrong = missing & (tokens >= 0) if self._may_lack else missing
        if wrong.any() and not default and not schema.optional:
            raise BadRowError(int(np.argmax(wrong)), f"Invalid null value for required {schema.type.name} field")
        try:
            column = self._values(schema, tokens[present]) if present.any() else pa.nulls(0, to_arrow(schema))
        except BadRowError as bad:
            raise BadRowError(int(np.flatnonzero(present)[bad.row]), bad) from None
        index = np.cumsum(present) - 1
        if not default:
            return column.take(pa.array(index, mask=~present))
        default_column = default_value(schema)
        if default_column.type != column.type:
            raise BadRowError(int(np.argmax(missing)), f"the schema's default has more than {DEFAULT_PRECISION} digits")
        index[missing] = len(column)
        nulls = ~present & ~missing
        return pa.concat_arrays([column, default_column]).take(pa.array(index, mask=nulls))

    def read(self, schema: Schema, tokens: Ints, *, tombstones: Bools | None = None) -> pa.Array:
        """Returns the values as `build` does. Their decimals may have more digits than usual (long_decimals)."""
        return long_decimals.built(partial(self.build, tokens=tokens, tombstones=tombstones), schema)

    def _are_present(self, tokens: Ints) -> Bools:
        out = np.empty(len(tokens), np.bool_)
        kernels.present(self._tape.kinds, tokens, out)
        return out

    def _values(self, schema: Schema, tokens: Ints) -> pa.Array:
        """Returns a column of values. None of the tokens is null."""
        logical = _LOGICAL.get((schema.name or "", schema.type))
        if logical:
            return logical(self, schema, tokens)
        if schema.type in _INTEGERS:
            return self._integers(schema.type, tokens)
        return _BY_TYPE[schema.type](self, schema, tokens)

    def _kinds(self, tokens: Ints) -> np.ndarray[Any, Any]:
        return self._tape.kinds[tokens]

    def _require(self, tokens: Ints, kinds: tuple[int, ...], reason: str, offsets: Ints | None = None) -> None:
        """Raises BadRowError for a token of another kind, which replaces `{}` in `reason`. `offsets`: of the lists
        whose items the tokens are.
        """
        found = self._kinds(tokens)
        wrong = ~np.isin(found, kinds)
        if wrong.any():
            refuse(wrong, reason.format(_NODES.get(int(found[np.argmax(wrong)]), "BOOLEAN")), offsets)

    def _integers(self, kind: Type, tokens: Ints) -> pa.Array:
        dtype = _INTEGERS[kind]
        seen = self._kinds(tokens)
        if (seen == INT).all():
            out = np.empty(len(tokens), np.int64)
            kernels.integers(self._tape.data, self._tape.kinds, self._tape.starts, self._tape.ends, tokens, out)
            return number_array(out.astype(dtype, copy=False), pa.from_numpy_dtype(dtype))
        written = raw(self._tape, tokens).to_pylist()
        widest = np.iinfo(np.int64 if kind is Type.INT64 else np.int32)
        whole = [_truncated(text, widest) if k in (INT, FLOAT) else 0 for text, k in zip(written, seen, strict=True)]
        return number_array(np.array(whole, np.int64).astype(dtype), pa.from_numpy_dtype(dtype))

    def _floats(self, schema: Schema, tokens: Ints) -> pa.Array:
        if self._exact:
            return pc.utf8_trim(raw(self._tape, tokens), '"').cast(to_arrow(schema))
        numbers = np.isin(self._kinds(tokens), (INT, FLOAT))
        found = raw(self._tape, np.where(numbers, tokens, -1).astype(np.int32)).fill_null("0")
        kind = to_arrow(schema)
        cast = found.cast(kind)
        dtype = kind.to_pandas_dtype()
        values = np.frombuffer(cast.buffers()[1], dtype, count=len(cast))
        return number_array(values + dtype(0), kind)  # no negative zero, see json_columns.floats

    def _booleans(self, _schema: Schema, tokens: Ints) -> pa.Array:
        out = np.empty(len(tokens), np.bool_)
        kernels.booleans(self._tape.kinds, tokens, out)
        return bool_array(out)

    def _strings(self, schema: Schema, tokens: Ints) -> pa.Array:
        seen = self._kinds(tokens)
        is_text = (seen == STRING) | (seen == ESCAPED) | (seen == KEY)
        if is_text.all():
            return strings(self._tape, tokens, None, escaped=bool((seen != STRING).any()))
        if not schema.optional:
            raise BadRowError(int(np.argmax(~is_text)), "Invalid value: null used for required field (not a text)")
        return strings(self._tape, np.where(is_text, tokens, -1).astype(np.int32), is_text, escaped=True)

    def _bytes(self, schema: Schema, tokens: Ints) -> pa.Array:
        found: list[bytes | None] = []
        for row, text in enumerate(self._strings(schema, tokens).to_pylist()):
            try:
                found.append(None if text is None else _from_base64(text))
            except ValueError as error:
                raise BadRowError(row, f"Invalid bytes field: {error}", "Invalid bytes field") from None
        return pa.array(found, pa.binary())

    def _array(self, schema: Schema, tokens: Ints) -> pa.Array:
        if schema.value is None:
            raise DataError("the schema of an array has no element type")
        offsets, inner = self._items(tokens)
        item = pa.field("item", to_arrow(schema.value), nullable=schema.value.optional)
        values = self._nested(schema.value, inner, offsets)
        return pa.Array.from_buffers(pa.list_(item), len(tokens), [None, pa.py_buffer(offsets)], children=[values])

    def _items(self, tokens: Ints) -> tuple[Ints, Ints]:
        offsets = np.empty(len(tokens) + 1, np.int32)
        count = kernels.item_counts(self._tape.kinds, self._tape.nexts, tokens, offsets)
        inner = np.empty(count, np.int32)
        kernels.items(self._tape.kinds, self._tape.nexts, tokens, inner)
        return offsets, inner

    def _nested(self, schema: Schema, tokens: Ints, offsets: Ints) -> pa.Array:
        """Calls `build` for items. A BadRowError has the row of the list instead of that of the item."""
        try:
            return self.build(schema, tokens)
        except BadRowError as bad:
            raise BadRowError(_list_of(bad.row, offsets), bad) from None

    def _map(self, schema: Schema, tokens: Ints) -> pa.Array:
        if schema.key is None or schema.value is None:
            raise DataError("the schema of a map has no key or value type")
        if schema.key.type is Type.STRING:
            offsets, keys, values = self._members(tokens)
        else:
            offsets, keys, values = self._pairs(tokens)
        key_array = self._nested(schema.key, keys, offsets)
        return map_array(schema, offsets, key_array, self._nested(schema.value, values, offsets))

    def _members(self, tokens: Ints) -> tuple[Ints, Ints, Ints]:
        self._require(tokens, (OBJECT,), "Maps with string fields should be encoded as JSON objects, but found {}")
        offsets = np.empty(len(tokens) + 1, np.int32)
        count = kernels.entry_counts(self._tape.kinds, self._tape.nexts, tokens, offsets)
        keys, values = np.empty(count, np.int32), np.empty(count, np.int32)
        kernels.entries(self._tape.kinds, self._tape.nexts, tokens, keys, values)
        return offsets, keys, values

    def _pairs(self, tokens: Ints) -> tuple[Ints, Ints, Ints]:
        self._require(
            tokens, (ARRAY,), "Maps with non-string fields should be encoded as JSON array of tuples, but found {}")
        offsets, pairs = self._items(tokens)
        self._require(pairs, (ARRAY,), "Found invalid map entry instead of array tuple: {}", offsets)
        inner_offsets, inner = self._items(pairs)
        lengths = np.diff(inner_offsets)
        wrong = lengths != 2
        if wrong.any():
            found = lengths[np.argmax(wrong)]
            refuse(wrong, f"Found invalid map entry, expected length 2 but found :{found}", offsets)
        return offsets, inner[::2].copy(), inner[1::2].copy()

    def _struct(self, schema: Schema, tokens: Ints) -> pa.Array:
        self._require(tokens, (OBJECT,), "Structs should be encoded as JSON objects, but found {}")
        cells = members_named(self._tape, tokens, [field.name for field in schema.fields])
        children, fields = [], []
        for field, cell in zip(schema.fields, cells, strict=True):
            try:
                children.append(self.build(field.schema, cell))
            except BadRowError as bad:
                raise BadRowError(bad.row, f"field {field.name}: {bad}", java_message_of(bad)) from None
            fields.append(pa.field(field.name, to_arrow(field.schema), nullable=field.schema.optional))
        return struct_array(children, fields, len(tokens), None)

    def _decimal(self, schema: Schema, tokens: Ints) -> pa.Array:
        self._require(tokens, (INT, FLOAT, STRING, ESCAPED),
                      "Invalid type for Decimal, underlying representation should be numeric or bytes but was {}")
        try:
            kind = to_arrow(schema)
        except DataError as error:
            error.java_message = _BAD_DECIMAL
            raise
        numeric = np.isin(self._kinds(tokens), (INT, FLOAT))
        numbers = raw(self._tape, np.where(numeric, tokens, -1).astype(np.int32))
        encoded = strings(self._tape, np.where(numeric, -1, tokens).astype(np.int32), ~numeric, escaped=True)
        found = []
        for row, (number, text) in enumerate(zip(numbers.to_pylist(), encoded.to_pylist(), strict=True)):
            try:
                value = Decimal(number) if text is None else _unscaled(text, schema.scale)
                found.append(fitting_decimal(value, kind))
            except ValueError as error:
                raise BadRowError(row, f"Invalid value for Decimal field: {error}", _BAD_DECIMAL) from None
        return pa.array(found, kind)

    def _moment(self, schema: Schema, tokens: Ints) -> pa.Array:
        name, number = str(schema.name).rpartition(".")[2], "integral" if schema.type is Type.INT64 else "integer"
        wrong = f"Invalid type for {name}, underlying representation should be {number} but was "
        self._require(tokens, (INT,), wrong + "{}")
        counts = integers(self._tape, tokens, None)
        if schema.type is Type.INT32:
            numbers = counts.to_numpy()
            refuse(numbers != numbers.astype(np.int32), f"Invalid value for {schema.name}, it has more than 32 bits",
                   java_message=wrong + "NUMBER")
            counts = counts.cast(pa.int32())
        if schema.name == TIME:
            check_times(counts)
        return counts.cast(to_arrow(schema))


def refuse(wrong: Bools, reason: str, offsets: Ints | None = None, *, java_message: str | None = None) -> None:
    """Raises BadRowError for the first wrong value. `offsets`: if the values are items of lists, those of the
    lists. `java_message`: see BadRowError.
    """
    if wrong.any():
        first = int(np.argmax(wrong))
        raise BadRowError(first if offsets is None else _list_of(first, offsets), reason, java_message)


def java_message_of(error: BadRowError) -> str:
    """Returns Kafka Connect's message for the innermost cause of an error."""
    cause: object = error
    while isinstance(cause, BadRowError) and isinstance(cause.reason, Exception):
        cause = cause.reason
    return (cause.java_message if isinstance(cause, ConnectError) else None) or str(cause)


def _list_of(item: int, offsets: Ints) -> int:
    """Returns the row of the list that an item belongs to."""
    return int(np.searchsorted(offsets, item, side="right")) - 1


_Build = Callable[[TypedReader, Schema, Ints], pa.Array]
_BY_TYPE: dict[Type, _Build] = {
    Type.FLOAT32: TypedReader._floats,  # noqa: SLF001 - a table of this class's own methods
    Type.FLOAT64: TypedReader._floats,  # noqa: SLF001
    Type.BOOLEAN: TypedReader._booleans,  # noqa: SLF001
    Type.STRING: TypedReader._strings,  # noqa: SLF001
    Type.BYTES: TypedReader._bytes,  # noqa: SLF001
    Type.ARRAY: TypedReader._array,  # noqa: SLF001
    Type.MAP: TypedReader._map,  # noqa: SLF001
    Type.STRUCT: TypedReader._struct,  # noqa: SLF001
}
_LOGICAL: dict[tuple[str, Type], _Build] = {
    (DECIMAL, Type.BYTES): TypedReader._decimal,  # noqa: SLF001
    (DATE, Type.INT32): TypedReader._moment,  # noqa: SLF001
    (TIME, Type.INT32): TypedReader._moment,  # noqa: SLF001
    (TIMESTAMP, Type.INT64): TypedReader._moment,  # noqa: SLF001
}


def default_value(schema: Schema) -> pa.Array:
    """Returns the schema's default as an array of one value. Raises DataError if it is not a value of the schema."""
    try:
        tape = read_tape(pa.array([(schema.default or "null").encode()], pa.binary()))
        return TypedReader(tape).read(schema, tape.roots)
    except BadRowError as bad:  # its row is not one of the records
        error = DataError(f"the schema has an invalid default, {str(schema.default)[:100]}: {bad}")
        error.java_message = java_message_of(bad)
        raise error from None


def _truncated(text: str, widest: np.iinfo[Any]) -> int:
    """Returns the integer that Java makes of a number. `widest`: of the type to which Java casts NaN and infinities."""
    value = Decimal(text)
    if not value.is_finite():
        return 0 if value.is_nan() else int(widest.max if value > 0 else widest.min)
    if value.adjusted() > 1000:  # noqa: SIM108 - the low bits of such a number are all zero
        whole = 0
    else:
        whole = int(value)
    return (whole + 2**63) % 2**64 - 2**63


def _unscaled(text: str, scale: int) -> Decimal:
    """Returns the decimal with these bytes in Base64. Raises ValueError."""
    content = _from_base64(text)
    number = int.from_bytes(content, "big", signed=True)
    if not content or number.bit_length() > MAX_DECIMAL_BITS:
        raise ValueError("it is empty" if not content else "it has more than 76 digits")
    return Decimal(number).scaleb(-scale, EXACT)


def _from_base64(text: str) -> bytes:
    """Decodes Base64 as Jackson does: white space may stand between units of four characters, but not within one, and
    each unit may end with padding, not only the last one. Raises ValueError.
    """
    try:
        return _units(text)
    except ValueError:
        return b"".join(_units(part) for part in _BETWEEN_UNITS.split(text))


def _units(text: str) -> bytes:
    if len(text) % 4 or text.endswith("==="):  # Python ignores such padding
        raise ValueError("its length is not a multiple of four, or its padding is wrong")
    return base64.b64decode(text, validate=True)
