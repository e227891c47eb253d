"""Values of Java classes as header converters take them: Python's own."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np

from spark_tasks.errors import DataError
from spark_tasks.pipeline.transforms.java_values import Moment, Struct

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def header_value(value: Any) -> Any:
    """Numbers of less than 64 bits become int, a Date a datetime, a Struct a dict."""
    if isinstance(value, Moment):
        try:
            return _EPOCH + timedelta(milliseconds=value.millis)
        except OverflowError as error:
            raise DataError(f"a header cannot hold a date {value.millis} ms from 1970: {error}") from None
    if isinstance(value, np.integer):
        return int(value)
    if isinstance(value, Struct):
        return {field.name: header_value(value.get(field.name)) for field in value.schema.fields}
    if isinstance(value, dict):
        return {name: header_value(one) for name, one in value.items()}
    return [header_value(one) for one in value] if isinstance(value, list) else value
