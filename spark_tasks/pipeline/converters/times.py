"""The range of Connect's logical type Time, which Java checks when it reads a value."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_tasks.java.calendar import DAY
from spark_tasks.pipeline.converters.base import BadRowError


def check_times(millis: pa.Array) -> None:
    """Raises BadRowError for a number of milliseconds that is not within a day. 24:00 is allowed, as in Java."""
    numbers: np.ndarray[Any, Any] = pc.fill_null(millis, 0).to_numpy(zero_copy_only=False)
    wrong = (numbers < 0) | (numbers > DAY)
    if wrong.any():
        row = int(np.argmax(wrong))
        range_text = "Time values must use number of milliseconds greater than 0 and less than 86400000"
        raise BadRowError(row, f"{range_text}, not {numbers[row]}", range_text)
