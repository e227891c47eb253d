"""Prometheus' text format. prometheus_client takes a second to render the metrics of 500 connectors, this some
milliseconds. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Literal

Kind = Literal["counter", "gauge", "summary", "untyped"]
_ESCAPED = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})
_WORDS = {"nan": "NaN", "inf": "+Inf", "-inf": "-Inf"}


@lru_cache(20_000)  # the same names are in thousands of lines of every page
def escaped(value: str) -> str:
    """A label's value, escaped for use between quotes."""
    return value.translate(_ESCAPED).encode("utf-8", "replace").decode()


def labels(pairs: Mapping[str, object]) -> str:
    """`a="1",b="2"`; the names must be valid in Prometheus."""
    return ",".join(f'{name}="{escaped(str(value))}"' for name, value in pairs.items())


def ended(labels: Iterable[str]) -> list[str]:
    """Labels with everything that separates them from a value, for `Page.column`."""
    return [f"{one}}} " for one in labels]


class Page:
    """Families in the order of their first sample; those without one are not shown."""

    def __init__(self) -> None:
        self._families: dict[str, list[str]] = {}

    def add(self, name: str, kind: Kind, text: str, samples: Iterable[tuple[str, float]]) -> None:
        """Add samples (labels as from `labels`, value) to a family. A second call for a family must have its kind."""
        # Only values that are not finite cost a call: there are tens of thousands of lines.
        head = f"{name}{{"
        lines = [f"{head}{where}}} {value!r}\n" if value - value == 0 else f"{head}{where}}} {_number(value)}\n"
                 for where, value in samples]
        if lines:
            self._lines(name, kind, text).extend(lines)

    def column(self, name: str, kind: Kind, text: str, places: Sequence[str], values: Sequence[float]) -> None:
        """Add many samples faster than `add`: their formatted labels (see `ended`) and their values."""
        if not places:
            return
        head, total = f"{name}{{", sum(values)
        if total - total == 0:  # then all of them are finite
            lines = [f"{head}{place}{value!r}\n" for place, value in zip(places, values, strict=True)]
        else:
            lines = [f"{head}{place}{_number(value)}\n" for place, value in zip(places, values, strict=True)]
        self._lines(name, kind, text).extend(lines)

    def add_summary(self, name: str, text: str, samples: Iterable[tuple[str, float, float]]) -> None:
        """Add samples (labels, count, sum) to a summary without quantiles."""
        head, then = f"{name}_sum{{", f"\n{name}_count{{"
        lines = [f"{head}{where}}} {total!r}{then}{where}}} {count!r}\n" if total - total == 0 == count - count
                 else f"{head}{where}}} {_number(total)}{then}{where}}} {_number(count)}\n"
                 for where, count, total in samples]
        if lines:
            self._lines(name, "summary", text).extend(lines)

    def _lines(self, name: str, kind: Kind, text: str) -> list[str]:
        if name not in self._families:
            words = text.replace("\\", "\\\\").replace("\n", "\\n") or "No help."
            self._families[name] = [f"# HELP {name} {words}\n# TYPE {name} {kind}\n"]
        return self._families[name]

    def text(self) -> str:
        """The whole page."""
        return "".join("".join(lines) for lines in self._families.values())


def _number(value: float) -> str:
    return repr(value) if value - value == 0 else _WORDS[repr(value)]
