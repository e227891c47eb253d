"""MaskField."""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
from typing_extensions import override

from spark_tasks.config.definition import Check, ConfigDef, ConfigKey, Importance, NonEmpty, Type, ValidList
from spark_tasks.data.columns import is_json
from spark_tasks.data.key_orders import Order, with_orders
from spark_tasks.data.schema import DECIMAL, Schema
from spark_tasks.data.schema import Type as ConnectType
from spark_tasks.errors import DataError
from spark_tasks.java.hash import copied, hash_order
from spark_tasks.pipeline.converters.java_columns import typed
from spark_tasks.pipeline.converters.java_values import (
    Moment,
    Struct,
    class_name,
    is_number,
    require_map,
    require_struct,
)
from spark_tasks.pipeline.transforms.columns_or_rows import NotInColumnsError, Record
from spark_tasks.pipeline.transforms.field_path import SYNTAX, parse_path
from spark_tasks.pipeline.transforms.field_transform import (
    REPLACE_NULLS,
    Changed,
    Nested,
    NestingTransform,
    Part,
    for_key,
)
from spark_tasks.pipeline.transforms.java_casts import cast
from spark_tasks.pipeline.transforms.key_groups import MOST_KINDS, orders_after

_KINDS = {
    np.int8: ConnectType.INT8, np.int16: ConnectType.INT16, np.int32: ConnectType.INT32, int: ConnectType.INT64,
    np.float32: ConnectType.FLOAT32, float: ConnectType.FLOAT64,
}  # fmt: skip
_DECIMAL = re.compile(r"[+-]?(\d++\.?\d*+|\.\d+)([eE][+-]?\d{1,9})?")  # with the digits of any script, as in Java
_EMPTY: dict[type, Any] = {
    bool: False, str: "", Decimal: Decimal(0), Moment: Moment(0), list: [], dict: {}, int: 0, float: 0.0,
    np.int8: np.int8(0), np.int16: np.int16(0), np.int32: np.int32(0), np.float32: np.float32(0),
}  # fmt: skip


def _check_replacement(name: str, value: Any) -> None:
    if value is not None:
        NonEmpty()(name, value)


class MaskField(NestingTransform):
    """Replaces the values of fields with an empty value or a replacement."""

    purpose = "mask fields"
    skips_nulls = False
    config_def = ConfigDef(
        ConfigKey("fields", Type.LIST, importance=Importance.HIGH, validator=ValidList(empty=False),
                  doc="The fields to mask."),
        ConfigKey(
            "replacement", Type.STRING, default=None, importance=Importance.LOW,
            doc="The replacement, for fields with numbers or strings.",
            validator=Check(_check_replacement, "non-empty string"),
        ),
        REPLACE_NULLS,
        SYNTAX,
    )  # fmt: skip

    @override
    def configure(self, configs: Mapping[str, str]) -> None:
        values = self.config_def.parse(configs)
        self._setup(values["fields"], values["replacement"], defaults=values["replace.null.with.default"])
        if values["field.syntax.version"].upper() == "V2":
            levels: dict[tuple[str, ...], list[str]] = {}
            for name in values["fields"]:
                *path, last = parse_path(name, "V2")
                levels.setdefault(tuple(path), []).append(last)
            self._nested = Nested([(path, self._level(names)) for path, names in levels.items()])

    def _setup(self, fields: list[str], replacement: str | None, *, defaults: bool) -> None:
        self._fields, self._replacement, self.fills_defaults = list(fields), replacement, defaults

    def _level(self, names: list[str]) -> MaskField:
        level = type(self)()
        level._setup(names, self._replacement, defaults=self.fills_defaults)  # noqa: SLF001 - an instance of this class
        return level

    @override
    def apart(self, array: pa.Array, field: pa.Field) -> list[Order]:
        found = super().apart(array, field)
        if not found or self._nested or any(is_json(one.metadata) for one in array.type):
            return found
        return found if orders_after(array, field, self._order) is None else []

    @override
    def _order(self, names: list[str]) -> list[str]:
        return copied(names, *hash_order(self._fields))

    @override
    def _row(self, schema: Schema | None, value: Any, record: Record) -> Part:
        if schema is None:
            fields = require_map(value, self.purpose)
            both = {**fields, **{name: self._masked(fields.get(name)) for name in hash_order(self._fields)}}
            return None, {name: both[name] for name in self._order(list(fields))}
        old = require_struct(value, self.purpose)
        struct = Struct(schema)
        for field in schema.fields:
            one = old.get(field.name, defaults=self.fills_defaults)
            struct.put(field.name, self._masked(one) if field.name in self._fields else one)
        return schema, struct

    def _masked(self, value: Any) -> Any:
        if value is None:
            return None
        kind = type(value)
        if self._replacement is None:
            if kind not in _EMPTY:
                raise DataError(f"Cannot mask value of type: class {class_name(value)}")
            return _EMPTY[kind]
        if not (is_number(value) or isinstance(value, str)):
            raise DataError(f"Cannot mask value of type class {class_name(value)} with custom replacement.")
        if isinstance(value, str):
            return self._replacement
        return self._number("number") if isinstance(value, Decimal) else cast(self._number(), _KINDS[kind])

    def _number(self, expected: str = "a number") -> Decimal:
        text = self._replacement or ""
        if not _DECIMAL.fullmatch(text) or max(text) > "\uffff":  # a char of Java is no longer
            raise DataError(f"Unable to convert {text} (class java.lang.String) to {expected}")
        return Decimal(text)

    @override
    def _change(self, batch: pa.RecordBatch, array: pa.Array, field: pa.Field) -> Changed:
        columns = self._columns(array, field)
        columns.check_nulls()
        before = list(columns.children)
        maps, _ = columns.build(before, None)
        for name in self._fields:
            if name in columns.children:
                child, its = columns.member(name)
                if is_json(its):
                    raise NotInColumnsError
                columns.put(name, self._mask_column(child, schemaless=columns.schema is None), its or None)
            elif columns.schema is None:
                columns.put(name, pa.nulls(columns.length))  # Java adds the key with null
        if columns.schema is not None:
            return columns.build(before, columns.schema)
        changed, _ = columns.build(self._order(before), None)
        orders = orders_after(maps, field, self._order) or []
        return changed, with_orders({}, orders if len(orders) <= MOST_KINDS else [])

    def _mask_column(self, child: pa.Array, *, schemaless: bool) -> pa.Array:
        """Returns a column with the replacement in each row that is not null."""
        kind = child.type
        if pa.types.is_null(kind):
            return child
        if pa.types.is_decimal(kind) and not schemaless:
            one = self._decimal(kind)
        else:
            one = pa.array([self._value(kind)], kind)
        same = np.zeros(len(child), np.int32)
        if not child.null_count:
            return one.take(pa.array(same))
        nulls = child.is_null().to_numpy(zero_copy_only=False)
        return one.take(pa.array(same, mask=nulls))

    def _decimal(self, kind: pa.DataType) -> pa.Array:
        """Returns the replacement of decimals, with its own scale."""
        schema = Schema(ConnectType.BYTES, name=DECIMAL, parameters=(("scale", str(kind.scale)),))
        one = typed([self._masked(Decimal())], schema)
        return one.cast(kind) if one.type.scale == kind.scale and one.type.bit_width <= kind.bit_width else one

    def _value(self, kind: pa.DataType) -> Any:
        if pa.types.is_string(kind):
            return "" if self._replacement is None else self._replacement
        if pa.types.is_boolean(kind) and self._replacement is None:
            return False
        for arrow, connect in _NUMBERS.items():
            if kind == arrow:
                return 0 if self._replacement is None else cast(self._number(), connect)
        raise NotInColumnsError


_NUMBERS = {
    pa.int8(): ConnectType.INT8, pa.int16(): ConnectType.INT16, pa.int32(): ConnectType.INT32,
    pa.int64(): ConnectType.INT64, pa.float32(): ConnectType.FLOAT32, pa.float64(): ConnectType.FLOAT64,
}  # fmt: skip

MaskFieldKey = for_key(MaskField)
