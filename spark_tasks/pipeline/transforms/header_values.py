"""Converts values of Java classes (java_values) to the Python values that header converters accept."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np

from spark_tasks.errors import DataError
from spark_tasks.pipeline.java_values import Moment, Struct
from spark_tasks.pipeline.transforms.moments import moment_text

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class FarDate:
    """A date in a year that datetime does not support. Its str() is the text that Java writes."""

    def __init__(self, date: Moment) -> None:
        self._text = moment_text(date)

    def __str__(self) -> str:
        return self._text


def header_value(value: Any, *, as_text: bool) -> Any:
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
        return {field.name: header_value(value.get(field.name), as_text=as_text) for field in value.schema.fields}
    if isinstance(value, dict):
        return {name: header_value(one, as_text=as_text) for name, one in value.items()}
    return [header_value(item, as_text=as_text) for item in value] if isinstance(value, list) else value
