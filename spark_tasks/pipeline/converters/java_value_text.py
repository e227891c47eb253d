"""Java's String.valueOf for values of Java classes (java_values) or of Python. Dates are in UTC. Bytes, which Java
prints as an address, are in Base64.
"""

from __future__ import annotations

import base64
from datetime import date, time
from typing import Any

import numpy as np
import pyarrow as pa

from spark_tasks.java.numbers import float_texts
from spark_tasks.java.simple_date_format import format_millis
from spark_tasks.pipeline.converters.java_values import Moment, Struct

_DATE = "EEE MMM dd HH:mm:ss 'UTC' y"


def java_text(value: Any) -> str:  # noqa: PLR0911 - a table of classes
    """Returns the text that Java prints. A Struct is printed without its null fields."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float | np.floating):
        return str(float_texts(pa.array([value]))[0].as_py())
    if isinstance(value, Moment):
        return date_text(value.millis)
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, Struct):
        fields = [(f.name, value.get(f.name, defaults=False)) for f in value.schema.fields]
        return "Struct{" + ",".join(f"{name}={java_text(one)}" for name, one in fields if one is not None) + "}"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{java_text(key)}={java_text(one)}" for key, one in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(java_text, value)) + "]"
    if isinstance(value, date | time):
        return date_text(Moment.of(value).millis)
    return str(value)  # also for Decimal, which Python and Java print in the same way


def date_text(millis: int) -> str:
    """Returns the text of a java.util.Date. `millis`: since the epoch."""
    return format_millis(_DATE, millis)
