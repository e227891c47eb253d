"""The converters for Kafka's primitive serializers: bytes and big-endian numbers."""


from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from typing_extensions import override

from spark_tasks.arrays.buffers import bool_array, number_array, string_array, texts
from spark_tasks.data.arrow_types import to_arrow
from spark_tasks.data.columns import SCHEMA_KEY, Metadata
from spark_tasks.data.schema import OPTIONAL_BYTES, Schema, Type, to_text
from spark_tasks.errors import DataError
from spark_tasks.pipeline.converters.base import BadRowsError, Column, Converter, HeaderConverter, schema_of

_JAVA_CLASSES = {str: "java.lang.String", bool: "java.lang.Boolean", int: "java.lang.Long", float: "java.lang.Double",
                 bytes: "[B", list: "java.util.ArrayList", dict: "java.util.HashMap"}  # fmt: skip
_JAVA_TYPES = {
    pa.string(): "java.lang.String", pa.bool_(): "java.lang.Boolean", pa.binary(): "[B", pa.int8(): "java.lang.Byte",
    pa.int16(): "java.lang.Short", pa.int32(): "java.lang.Integer", pa.int64(): "java.lang.Long",
    pa.float32(): "java.lang.Float", pa.float64(): "java.lang.Double",
}  # fmt: skip


class _Primitive(Converter, HeaderConverter):
    """Has no configuration. Converts a header as a column of one value."""

    version = "4.3.1"
    nulls_have_schema = True
    _schema: ClassVar[Schema]
    _checks_schemas: ClassVar[bool] = False  # of values to write

    @override
    def configure(self, configs: Mapping[str, str], *, is_key: bool = False) -> None:
        pass

    @override
    def to_connect_header(self, topic: str, name: str, value: bytes | None) -> tuple[Schema | None, Any]:
        array, _ = self.to_connect(topic, pa.array([value], pa.binary()))
        return self._schema, array[0].as_py()

    @override
    def from_connect_header(self, topic: str, name: str, schema: Schema | None, value: Any) -> bytes | None:
        self._check(schema)
        try:
            array = pa.array([value], to_arrow(schema or self._schema))
        except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
            raise self._refusal(value) from error
        found: bytes | None = self.from_connect(topic, array, None)[0].as_py()
        return found

    def _check(self, schema: Schema | None) -> None:
        if self._checks_schemas and schema is not None and schema.type is not self._schema.type:
            raise DataError(f"Invalid schema type for {type(self).__name__}: {schema.type.name}")

    @classmethod
    def _refusal(cls, value: Any) -> DataError:
        """Returns the error for a header's value of another type."""
        return cls._refused(type(value).__name__, _JAVA_CLASSES.get(type(value)))

    @classmethod
    def _only_nulls(cls, array: pa.Array) -> pa.Array:
        """Returns the nulls of a column of another type, which any converter writes, as in Java. Raises BadRowsError
        for all other values.
        """
        if array.null_count < len(array):
            error = cls._refused(str(array.type), _JAVA_TYPES.get(array.type))
            raise BadRowsError([(row, error) for row in pc.indices_nonzero(array.is_valid()).to_pylist()])
        return pa.nulls(len(array), pa.binary())

    @classmethod
    def _refused(cls, kind: str, java_class: str | None) -> DataError:
        error = DataError(f"{cls.__name__} is not compatible with values of type {kind}")
        if java_class is not None:
            error.java_message = f"{cls.__name__} is not compatible with objects of type class {java_class}"
        return error


class _BytesError(DataError):
    """The bytes cannot be read as a value of the type."""

    def __init__(self, what: str, why: str) -> None:
        super().__init__(f"{what}{why}")
        self.java_message = what


def _wrong_sizes(wrong: np.ndarray[Any, Any], word: str, why: str) -> BadRowsError:
    error = _BytesError(f"Failed to deserialize {word}: ", why)
    return BadRowsError([(row, error) for row in np.flatnonzero(wrong).tolist()])


class ByteArrayConverter(_Primitive):
    """Passes bytes through unchanged."""

    aliases = ("org.apache.kafka.connect.converters.ByteArrayConverter", "ByteArrayConverter")
    _schema = OPTIONAL_BYTES
    _checks_schemas = True

    @override
    def to_connect(self, topic: str, array: pa.Array, headers: pa.Array | None = None) -> Column:
        return array, {SCHEMA_KEY: to_text(OPTIONAL_BYTES).encode()}

    @override
    def from_connect(self, topic: str, array: pa.Array, metadata: Metadata | None = None) -> pa.Array:
        self._check(schema_of(metadata))
        if pa.types.is_null(array.type) or pa.types.is_large_binary(array.type):
            return array.cast(pa.binary())
        if not pa.types.is_binary(array.type):
            return self._only_nulls(array)
        return array


class _Number(_Primitive):
    """Converts numbers of a fixed size."""

    _dtype: ClassVar[str]  # the numpy type, big-endian
    _word: ClassVar[str]

    @classmethod
    @override
    def _refused(cls, kind: str, java_class: str | None) -> DataError:
        error = DataError(f"Failed to serialize to {cls._word} (was {kind})")
        if java_class is not None:
            error.java_message = f"Failed to serialize to {cls._word} (was class {java_class}): "
        return error

    @override
    def to_connect(self, topic: str, array: pa.Array, headers: pa.Array | None = None) -> Column:
        dtype = np.dtype(self._dtype)
        kind = to_arrow(self._schema)
        metadata = {SCHEMA_KEY: to_text(self._schema).encode()}
        source = texts(array)
        sizes = np.diff(source.offsets)
        valid = np.ones(len(array), np.bool_) if source.valid is None else source.valid
        wrong = valid & (sizes != dtype.itemsize)
        if wrong.any():
            raise _wrong_sizes(wrong, self._word, f"its size is not {dtype.itemsize}")
        values = np.zeros(len(array), dtype.newbyteorder("="))
        if valid.any():
            at = source.offsets[:-1][valid][:, None] + np.arange(dtype.itemsize)
            values[valid] = source.data[at].copy().view(dtype)[:, 0]
        return number_array(values, kind, source.valid), metadata

    @override
    def from_connect(self, topic: str, array: pa.Array, metadata: Metadata | None = None) -> pa.Array:
        dtype = np.dtype(self._dtype)
        if array.type != to_arrow(self._schema):
            return self._only_nulls(array)
        valid = np.asarray(array.is_valid().to_numpy(zero_copy_only=False))
        values = array.fill_null(0).to_numpy(zero_copy_only=False).astype(dtype)[valid]
        offsets = np.zeros(len(array) + 1, np.int32)
        np.cumsum(valid * dtype.itemsize, out=offsets[1:])
        data = np.frombuffer(values.tobytes(), np.uint8)
        return string_array(data, offsets, valid, pa.binary())


class ShortConverter(_Number):
    """16-bit integers."""

    aliases = ("org.apache.kafka.connect.converters.ShortConverter", "ShortConverter")
    _schema, _dtype, _word = Schema(Type.INT16, optional=True), ">i2", "short"


class IntegerConverter(_Number):
    """32-bit integers."""

    aliases = ("org.apache.kafka.connect.converters.IntegerConverter", "IntegerConverter")
    _schema, _dtype, _word = Schema(Type.INT32, optional=True), ">i4", "integer"


class LongConverter(_Number):
    """64-bit integers."""

    aliases = ("org.apache.kafka.connect.converters.LongConverter", "LongConverter")
    _schema, _dtype, _word = Schema(Type.INT64, optional=True), ">i8", "long"


class FloatConverter(_Number):
    """32-bit floating point numbers."""

    aliases = ("org.apache.kafka.connect.converters.FloatConverter", "FloatConverter")
    _schema, _dtype, _word = Schema(Type.FLOAT32, optional=True), ">f4", "float"


class DoubleConverter(_Number):
    """64-bit floating point numbers."""

    aliases = ("org.apache.kafka.connect.converters.DoubleConverter", "DoubleConverter")
    _schema, _dtype, _word = Schema(Type.FLOAT64, optional=True), ">f8", "double"


class BooleanConverter(_Primitive):
    """One byte, 0 or 1."""

    aliases = ("org.apache.kafka.connect.converters.BooleanConverter", "BooleanConverter")
    _schema = Schema(Type.BOOLEAN, optional=True)
    _checks_schemas = True

    @override
    def to_connect(self, topic: str, array: pa.Array, headers: pa.Array | None = None) -> Column:
        source = texts(array)
        valid = np.ones(len(array), np.bool_) if source.valid is None else source.valid
        flags = np.zeros(len(array), np.uint8)
        sizes = np.diff(source.offsets)
        wrong = valid & (sizes != 1)
        if not wrong.any() and valid.any():
            flags[valid] = source.data[source.offsets[:-1][valid]]
            wrong = flags > 1
        if wrong.any():
            raise _wrong_sizes(wrong, "boolean", "it must be one byte, 0 or 1")
        return bool_array(flags == 1, source.valid), {SCHEMA_KEY: to_text(self._schema).encode()}

    @override
    def from_connect(self, topic: str, array: pa.Array, metadata: Metadata | None = None) -> pa.Array:
        self._check(schema_of(metadata))
        if not pa.types.is_boolean(array.type):
            return self._only_nulls(array)
        written = {None: None, True: b"\x01", False: b"\x00"}
        return pa.array([written[value] for value in array.to_pylist()], pa.binary())
