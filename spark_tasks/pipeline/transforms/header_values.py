"""Writes the values of headers that transforms add."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, Final

import numpy as np
from typing_extensions import override

from spark_tasks.data.schema import Schema
from spark_tasks.errors import DataError
from spark_tasks.pipeline.converters.base import HeaderConverter
from spark_tasks.pipeline.converters.java_values import Moment, Struct
from spark_tasks.pipeline.converters.simple_header import SimpleHeaderConverter
from spark_tasks.pipeline.errors.outages import is_of_machine, is_outage
from spark_tasks.pipeline.transforms.moments import moment_text

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SIMPLE = SimpleHeaderConverter()
SIMPLE_HEADER_CONVERTER: Final = "org.apache.kafka.connect.storage.SimpleHeaderConverter"


class FarDate:
    """A date in a year that datetime does not support. Its str() is the text that Java writes."""

    def __init__(self, date: Moment) -> None:
        self._text = moment_text(date)

    @override
    def __str__(self) -> str:
        return self._text


class UnwritableHeaderError(DataError):
    """The header converter refuses the value of a header that a transform adds. In Kafka Connect, the transform
    succeeds, and the record fails at the header converter. `class_name`: of that, as in REST. `reason`: its error.
    """

    def __init__(self, header: str, class_name: str, reason: Exception) -> None:
        super().__init__(f"{class_name} cannot write the header {header}: {reason}")
        self.header, self.class_name, self.reason = header, class_name, reason


class HeaderWriter:
    """Writes values with a task's header converter. `class_name`: of the converter, as in REST. `sink`: in Kafka
    Connect, such a header of a sink is never converted; so what the converter refuses is written as
    SimpleHeaderConverter writes it.
    """

    def __init__(
        self, converter: HeaderConverter | None = None, class_name: str = SIMPLE_HEADER_CONVERTER, *,
        sink: bool = False,
    ) -> None:
        self._converter = converter or _SIMPLE
        self._class_name = class_name
        self._sink = sink

    @property
    def simple(self) -> bool:
        """Whether every value is written by SimpleHeaderConverter."""
        return type(self._converter) is SimpleHeaderConverter

    def write(self, topic: str, name: str, schema: Schema | None, value: Any) -> bytes | None:
        """Returns the bytes of a header. `value`: a Python value, or one of a Java class (java_values). Raises
        UnwritableHeaderError.
        """
        try:
            return _written(self._converter, topic, name, schema, value)
        except Exception as error:  # plugin code
            if is_outage(error) or is_of_machine(error):
                raise
            if not self._sink or self.simple:
                raise UnwritableHeaderError(name, self._class_name, error) from error
            return _written(_SIMPLE, topic, name, schema, value)


def _written(converter: HeaderConverter, topic: str, name: str, schema: Schema | None, value: Any) -> bytes | None:
    if not converter.takes_java_values:
        value = _python_value(value, as_text=type(converter) is SimpleHeaderConverter)
    return converter.from_connect_header(topic, name, schema, value)


def _python_value(value: Any, *, as_text: bool) -> Any:
    """Returns the Python value: small integers become int, a Date datetime, a Struct dict. `as_text`:
    SimpleHeaderConverter writes the value as text, so a date may be in any year. Otherwise raises DataError for a year
    that datetime does not support.
    """
    if isinstance(value, Moment):
        try:
            return _EPOCH + timedelta(milliseconds=value.millis)
        except OverflowError as error:
            if as_text:
                return FarDate(value)
            raise DataError(f"a header cannot contain a date {value.millis} ms after 1970-01-01: {error}") from None
    if isinstance(value, np.integer):
        return int(value)
    if isinstance(value, Struct):
        return {field.name: _python_value(value.get(field.name), as_text=as_text) for field in value.schema.fields}
    if isinstance(value, dict):
        return {name: _python_value(one, as_text=as_text) for name, one in value.items()}
    return [_python_value(item, as_text=as_text) for item in value] if isinstance(value, list) else value
