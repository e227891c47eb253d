"""Prometheus' text format. prometheus_client's own rendering takes a second for what 500 connectors have to tell; this
one takes some milliseconds. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Literal

Kind = Literal["counter", "gauge", "summary", "untyped"]
_ESCAPED = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})
_WORDS = {"nan": "NaN", "inf": "+Inf", "-inf": "-Inf"}


@lru_cache(20_000)  # the same names stand in thousands of lines, page after page
def escaped(value: str) -> str:
    """A label's value as it stands between quotes, whatever is in it."""
    return value.translate(_ESCAPED).encode("utf-8", "replace").decode()


def labels(pairs: Mapping[str, object]) -> str:
    """`a="1",b="2"`; the names must be ones that Prometheus has."""
    return ",".join(f'{name}="{escaped(str(value))}"' for name, value in pairs.items())


class Page:
    """Families in the order of their first sample; those without one are not shown."""

    def __init__(self) -> None:
        self._families: dict[str, list[str]] = {}
        self._kinds: dict[str, Kind] = {}

    def add(self, name: str, kind: Kind, text: str, samples: Iterable[tuple[str, float]]) -> None:
        """Samples (labels as `labels` makes them, value) of a family. More may come later, of the same kind."""
        # Only what is not finite costs a call: there are tens of thousands of lines.
        lines = [f"{name}{{{where}}} {value!r}\n" if value - value == 0 else f"{name}{{{where}}} {_number(value)}\n"
                 for where, value in samples]
        if lines:
            self._lines(name, kind, text).extend(lines)

    def add_summary(self, name: str, text: str, samples: Iterable[tuple[str, float, float]]) -> None:
        """Samples (labels, count, sum) of a summary without quantiles."""
        lines = [f"{name}_sum{{{where}}} {_number(total)}\n{name}_count{{{where}}} {_number(count)}\n"
                 for where, count, total in samples]
        if lines:
            self._lines(name, "summary", text).extend(lines)

    def has(self, name: str, kind: Kind) -> bool:
        """Whether the name is free for this kind."""
        return self._kinds.get(name, kind) == kind

    def _lines(self, name: str, kind: Kind, text: str) -> list[str]:
        if name not in self._families:
            words = text.replace("\\", "\\\\").replace("\n", "\\n") or "No help."
            self._families[name] = [f"# HELP {name} {words}\n# TYPE {name} {kind}\n"]
            self._kinds[name] = kind
        return self._families[name]

    def text(self) -> str:
        """All of it."""
        return "".join("".join(lines) for lines in self._families.values())


def _number(value: float) -> str:
    return repr(value) if value - value == 0 else _WORDS[repr(value)]
