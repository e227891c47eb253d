"""Formats java.util.Date values as Kafka Connect's `Values` does."""

from __future__ import annotations

from spark_tasks.java.calendar import DAY
from spark_tasks.java.simple_date_format import format_millis
from spark_tasks.pipeline.converters.java_values import Moment

_TIME = "HH:mm:ss.SSS'Z'"
_DATE = "yyyy-MM-dd"


def moment_text(value: Moment) -> str:
    """Returns a time for the first day of the epoch and before it, a date for any other midnight, otherwise date and
    time.
    """
    if value.millis < DAY:
        return format_millis(_TIME, value.millis)
    return format_millis(_DATE if value.millis % DAY == 0 else f"{_DATE}'T'{_TIME}", value.millis)
