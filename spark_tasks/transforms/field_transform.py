"""Common to the transforms of fields: a struct column taken apart and put together, of the key or of the value.

On a schemaless map the order of the keys follows what Java does to its HashMaps, so that the text of a record stays
the same as Java's.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_tasks.columns import SCHEMA_KEY, is_json, struct_array, with_value
from spark_tasks.config_def import ConfigKey, Type
from spark_tasks.converters.base import schema_of
from spark_tasks.converters.json_columns import parse_columns
from spark_tasks.converters.json_typed import default_value
from spark_tasks.errors import DataError
from spark_tasks.schema import Schema, to_text
from spark_tasks.transforms.base import Transform

Changed = tuple[pa.Array, dict[bytes, bytes] | None]

REPLACE_NULLS = ConfigKey(
    "replace.null.with.default", Type.BOOLEAN, default=True,
    doc="Whether a field that is null takes its default value, where it has one.",
)  # fmt: skip


class Columns:
    """A struct column taken apart: names, children, their fields, and whether it is a Struct or a schemaless map."""

    def __init__(self, array: pa.Array, field: pa.Field, purpose: str) -> None:
        self.schema = schema_of(field.metadata)
        if is_json(field.metadata):
            array, _ = parse_columns(array.cast(pa.binary()))
        if not pa.types.is_struct(array.type):
            kind = "Struct" if self.schema else "Map"
            raise DataError(f"Only {kind} objects supported for [{purpose}], found: {array.type}")
        self.nulls = pc.invert(array.is_valid()) if array.null_count else None
        self.length = len(array)
        self.children = dict(zip((f.name for f in array.type), array.flatten(), strict=True))
        self.fields: dict[str, pa.Field] = {f.name: f for f in array.type}

    def fill_defaults(self) -> None:
        """Give nulls the defaults that their schemas have (replace.null.with.default)."""
        for field in self.schema.fields if self.schema else ():
            child = self.children[field.name]
            if field.schema.default is not None and child.null_count:
                index = pc.if_else(child.is_valid(), pa.array(np.arange(len(child))), len(child))
                self.children[field.name] = pa.concat_arrays([child, default_value(field.schema)]).take(index)

    def put(self, name: str, array: pa.Array, metadata: dict[bytes, bytes] | None = None) -> None:
        """Set a column; at the end if it is new."""
        self.children[name] = array
        self.fields[name] = pa.field(name, array.type, metadata=metadata)

    def build(self, names: Sequence[str], schema: Schema | None) -> tuple[pa.Array, dict[bytes, bytes] | None]:
        """The column of these fields in this order."""
        children = [self.children[name] for name in names]
        fields = [self.fields[name].with_name(name) for name in names]
        array = struct_array(children, fields, self.length, self.nulls)
        return array, None if schema is None else {SCHEMA_KEY: to_text(schema).encode()}


class FieldTransform(Transform):
    """Works on the key or on the value, as the concrete class says."""

    part: ClassVar[str] = "value"
    purpose: ClassVar[str]
    version = "4.3.1"

    def apply(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """See Transform. Null keys or values pass as they are."""
        array = batch.column(self.part)
        if array.null_count == len(array) and not self.takes_nulls:
            return batch
        result = self.change(batch, array, batch.schema.field(self.part))
        return with_value(batch, self.part, *result)

    takes_nulls: ClassVar[bool] = False
    fills_defaults = True

    def _columns(self, array: pa.Array, field: pa.Field) -> Columns:
        columns = Columns(array, field, self.purpose)
        if self.fills_defaults:
            columns.fill_defaults()
        return columns

    @abstractmethod
    def change(self, batch: pa.RecordBatch, array: pa.Array, field: pa.Field) -> Changed:
        """The new column and its metadata."""


def for_key(transform: type[FieldTransform]) -> type[FieldTransform]:
    """The same transform for the key."""
    java = f"org.apache.kafka.connect.transforms.{transform.__name__}$Key"
    members = {"part": "key", "aliases": (java,), "__doc__": transform.__doc__, "__module__": transform.__module__}
    return type(f"{transform.__name__}Key", (transform,), members)
