"""Prometheus' text format. prometheus_client takes a second to render the metrics of 500 connectors, this some
milliseconds. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, TypeVar

Kind = Literal["counter", "gauge", "summary", "untyped"]
_ESCAPED = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})
Made = TypeVar("Made")
_WORDS = {"nan": "NaN", "inf": "+Inf", "-inf": "-Inf"}


@lru_cache(20_000)  # the same names are in thousands of lines of every page
def escaped(value: str) -> str:
    """A label's value, escaped for use between quotes."""
    return _unicode(value.translate(_ESCAPED))


def _unicode(text: str) -> str:
    """The text with ? instead of unpaired surrogates: one of them would make the page an error."""
    return text.encode("utf-8", "replace").decode()


def labels(pairs: Mapping[str, object]) -> str:
    """`a="1",b="2"`; the names must be valid in Prometheus."""
    return ",".join(f'{name}="{escaped(str(value))}"' for name, value in pairs.items())


class Kept:
    """Caches rendered parts of the page; a part is reused while its inputs are unchanged. Any thread may use it. Its
    size is that of a page, as only names from heeler's code are used, none of plugins.
    """

    def __init__(self) -> None:
        self._kept: dict[str, tuple[object, object]] = {}
        self._columns: dict[str, _Column] = {}

    def get(self, name: str, source: object, make: Callable[[], Made]) -> Made:
        """What `make` returned for this name when the source was equal to this one. Give it lists of the same objects
        each time: equality is then a comparison of addresses.
        """
        known = self._kept.get(name)
        if known is None or known[0] != source:
            known = self._kept[name] = (source, make())
        return known[1]  # type: ignore[return-value] # a name has one type

    def column(self, name: str, places: Sequence[str], heads: Sequence[str], values: Sequence[float]) -> str:
        """The lines of a family: for each place one with each of these beginnings."""
        known = self._columns.get(name)
        if known is None or known.places != places:
            starts = [f"{head}{place}}} " for place in places for head in heads]
            starts[1:] = ["\n" + start for start in starts[1:]]
            known = _Column(places, starts, (), (), (), "")
        types = list(map(type, values))  # 0 is equal to 0.0, which is written differently
        if known.values == values and known.types == types:
            return known.text
        if known.types == types:  # of few tasks: to write a float takes much longer than to compare it
            words = [word if value == before else _number(value)
                     for word, before, value in zip(known.words, known.values, values, strict=True)]
        else:
            words = list(map(_number, values))
        pieces = [""] * (2 * len(words))
        pieces[::2], pieces[1::2] = known.starts, words
        self._columns[name] = _Column(places, known.starts, values, types, words, "".join(pieces) + "\n")
        return self._columns[name].text


@dataclass(frozen=True, slots=True)
class _Column:
    """The lines of a family on the last page, and what they were made of."""

    places: Sequence[str]
    starts: Sequence[str]  # of the lines, with the end of the line before
    values: Sequence[float]
    types: Sequence[type]
    words: Sequence[str]
    text: str


class Page:
    """Families in the order of their first sample; those without one are not shown. `kept`: of the pages before."""

    def __init__(self, kept: Kept | None = None) -> None:
        self._families: dict[str, list[str]] = {}
        self.kept = kept or Kept()

    def add(self, name: str, kind: Kind, text: str, samples: Iterable[tuple[str, float]]) -> None:
        """Adds samples (labels as from `labels`, value) to a family. A second call for a family must have its kind."""
        # Only values that are not finite cost a call: there are tens of thousands of lines.
        head = f"{name}{{"
        lines = [f"{head}{where}}} {value!r}\n" if value - value == 0 else f"{head}{where}}} {_number(value)}\n"
                 for where, value in samples]
        if lines:
            self._lines(name, kind, text).extend(lines)

    def column(self, name: str, kind: Kind, text: str, places: Sequence[str], values: Sequence[float]) -> None:
        """Adds many samples faster than `add`, from their labels and their values: values that have not changed are
        not formatted again.
        """
        if places:
            self._lines(name, kind, text).append(self.kept.column(name, places, (f"{name}{{",), values))

    def column_of_summary(self, name: str, text: str, places: Sequence[str], values: Sequence[float]) -> None:
        """Like `column`, for a summary without quantiles. `values`: for each place the sum and the count."""
        if places:
            heads = f"{name}_sum{{", f"{name}_count{{"
            self._lines(name, "summary", text).append(self.kept.column(name, places, heads, values))

    def add_summary(self, name: str, text: str, samples: Iterable[tuple[str, float, float]]) -> None:
        """Adds samples (labels, count, sum) to a summary without quantiles."""
        head, then = f"{name}_sum{{", f"\n{name}_count{{"
        lines = [f"{head}{where}}} {total!r}{then}{where}}} {count!r}\n" if total - total == 0 == count - count
                 else f"{head}{where}}} {_number(total)}{then}{where}}} {_number(count)}\n"
                 for where, count, total in samples]
        if lines:
            self._lines(name, "summary", text).extend(lines)

    def _lines(self, name: str, kind: Kind, text: str) -> list[str]:
        if name not in self._families:
            words = text.replace("\\", "\\\\").replace("\n", "\\n") or "No help."
            self._families[name] = [f"# HELP {name} {_unicode(words)}\n# TYPE {name} {kind}\n"]
        return self._families[name]

    def text(self, more: str = "") -> str:
        """The whole page, and `more` after it: to copy a page of several MB takes milliseconds."""
        return "".join([*(line for lines in self._families.values() for line in lines), more])


def _number(value: float) -> str:
    return repr(value) if value - value == 0 else _WORDS[repr(value)]
