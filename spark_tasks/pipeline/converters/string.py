"""StringConverter: texts in any encoding that both Python and Java support."""


from __future__ import annotations

import codecs
from collections.abc import Mapping
from typing import Any, ClassVar

import pyarrow as pa
from typing_extensions import override

from spark_tasks.arrays.buffers import as_strings
from spark_tasks.config.definition import ConfigDef, ConfigKey, Importance, Type, Width
from spark_tasks.data.columns import SCHEMA_KEY, Metadata
from spark_tasks.data.schema import OPTIONAL_STRING, Schema, to_text
from spark_tasks.errors import ConfigError
from spark_tasks.java.utf8 import decoded
from spark_tasks.pipeline.converters.base import CONVERTER_KEYS, Column, Converter, HeaderConverter
from spark_tasks.pipeline.converters.java_column_text import to_texts
from spark_tasks.pipeline.converters.java_value_text import java_text

_MARKS = (codecs.BOM_UTF16_BE, codecs.BOM_UTF16_LE)
_LONG_MARKS = (codecs.BOM_UTF32_BE, codecs.BOM_UTF32_LE)
_METADATA = {SCHEMA_KEY: to_text(OPTIONAL_STRING).encode()}


class StringConverter(Converter, HeaderConverter):
    """Decodes bytes, invalid ones as U+FFFD, and writes values as Java's toString does, like Kafka Connect's."""

    version = "4.3.1"
    nulls_have_schema = True
    takes_java_values = True
    aliases = ("org.apache.kafka.connect.storage.StringConverter", "StringConverter")
    config_def: ClassVar[ConfigDef] = CONVERTER_KEYS.plus(
        ConfigKey(
            "converter.encoding", Type.STRING, default="UTF-8", importance=Importance.HIGH, width=Width.MEDIUM,
            display_name="Encoding", doc="The character set of the texts, by its Java name.",
        ),
    )  # fmt: skip

    @override
    def configure(self, configs: Mapping[str, str], *, is_key: bool = False) -> None:
        values = self.config_def.parse({**configs, "converter.type": "key" if is_key else "value"})
        name = values["converter.encoding"]
        try:
            self._codec = codecs.lookup(name)
            "a".encode(name, "replace")  # Python also has codecs that are not for texts
            b"\xff".decode(name, "replace")
        except (LookupError, ValueError):
            raise ConfigError(f"Invalid value {name!r} for configuration converter.encoding: it is not a known "
                              "encoding of texts, such as UTF-8, ISO-8859-1 or UTF-16") from None
        self._utf8 = self._codec.name == "utf-8"

    @override
    def to_connect(self, topic: str, array: pa.Array, headers: pa.Array | None = None) -> Column:
        if self._utf8:
            try:
                return as_strings(array), _METADATA
            except pa.ArrowInvalid:
                pass  # some text is not UTF-8: invalid bytes are replaced below, as in Java
        read = [None if value is None else self._decode(value) for value in array.to_pylist()]
        return pa.array(read, pa.string()), _METADATA

    @override
    def from_connect(self, topic: str, array: pa.Array, metadata: Metadata | None = None) -> pa.Array:
        texts = to_texts(array, metadata)
        if self._utf8:
            return texts.cast(pa.binary())
        return pa.array([None if text is None else self._encode(text) for text in texts.to_pylist()], pa.binary())

    @override
    def to_connect_header(self, topic: str, name: str, value: bytes | None) -> tuple[Schema | None, Any]:
        return OPTIONAL_STRING, None if value is None else self._decode(value)

    @override
    def from_connect_header(self, topic: str, name: str, schema: Schema | None, value: Any) -> bytes | None:
        return None if value is None else self._encode(java_text(value))

    def _decode(self, value: bytes) -> str:
        if self._utf8:
            return decoded(value)
        if self._codec.name == "utf-16" and value[:2] not in _MARKS:
            return value.decode("utf-16-be", "replace")  # as in Java without a byte order mark
        if self._codec.name == "utf-32" and value[:4] not in _LONG_MARKS:
            return value.decode("utf-32-be", "replace")
        return self._codec.decode(value, "replace")[0]

    def _encode(self, text: str) -> bytes:
        if self._codec.name == "utf-16":
            return codecs.BOM_UTF16_BE + text.encode("utf-16-be", "replace")
        if self._codec.name == "utf-32":
            return text.encode("utf-32-be", "replace")  # Java writes no mark here
        return self._codec.encode(text, "replace")[0]
