"""Formats a double as Java's Double.toString. For whole columns see spark_tasks/java/numbers.py."""

from __future__ import annotations

import math
from collections.abc import Mapping
from decimal import Decimal
from typing import Final

# Java prints at least two digits, those nearest to the number. Only these numbers have a shorter representation.
_SMALLEST: Final[Mapping[float, str]] = {5e-324: "4.9E-324", 1e-323: "9.9E-324"}


def java_double(value: float) -> str:
    """Formats a double: decimal from 0.001 to 10,000,000, otherwise scientific (1.0E10, 1.0E-5); NaN, Infinity. The
    digits are the shortest that identify the number, as in Java 19 and newer.
    """
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else ("Infinity" if value > 0 else "-Infinity")
    shortest = float.__repr__(value)  # numpy's doubles have a different repr
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return shortest
    sign = "-" if value < 0 else ""
    if abs(value) in _SMALLEST:
        return sign + _SMALLEST[abs(value)]
    _, figures, last = Decimal(shortest).normalize().as_tuple()
    digits = "".join(map(str, figures))
    return f"{sign}{digits[0]}.{digits[1:] or '0'}E{len(digits) - 1 + int(last)}"
