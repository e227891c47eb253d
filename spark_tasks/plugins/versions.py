"""Version requirements of plugins according to KIP-891: "1.2" (exactly this version), a Maven range, "[1.0,2.0)",
or several, "[1.0,2.0),[3.0,)".
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise

from typing_extensions import override

from spark_tasks.errors import ConfigError

_PARTS = re.compile(r"\d+|[a-zA-Z]+")
_TOO_LONG = re.compile(r"\d{101}")  # Python refuses to convert thousands of digits
_NEXT_RANGE = re.compile(r"(?<=[\])])\s*,\s*(?=[\[(])")  # the comma between two ranges


def sort_key(version: str) -> tuple[tuple[int, ...], bool, tuple[tuple[int, str], ...]]:
    """A sort key for versions: numbers by value, 1.0 equal to 1, a pre-release (1.0-rc1) before its release (1.0).
    Raises ConfigError for a number of more than 100 digits.
    """
    if _TOO_LONG.search(version):
        raise ConfigError(f"Invalid version '{version[:20]}...': a number in it has more than 100 digits")
    parts = _PARTS.findall(version.partition("+")[0])
    split = next((n for n, part in enumerate(parts) if not part.isdigit()), len(parts))
    release = [int(part) for part in parts[:split]]
    while release and release[-1] == 0:
        release.pop()
    qualifier = tuple((int(p), "") if p.isdigit() else (-1, p.lower()) for p in parts[split:])
    return tuple(release), not qualifier, qualifier


@dataclass(frozen=True, slots=True)
class VersionRange:
    """A range of versions. `low`, `high`: the bounds, None for no bound."""

    low: str | None
    low_included: bool
    high: str | None
    high_included: bool

    def __contains__(self, version: str) -> bool:
        key = sort_key(version)
        if self.low is not None and (key < sort_key(self.low) or (key == sort_key(self.low) and not self.low_included)):
            return False
        if self.high is None:
            return True
        return key < sort_key(self.high) or (key == sort_key(self.high) and self.high_included)

    @override
    def __str__(self) -> str:
        opening, closing = "[" if self.low_included else "(", "]" if self.high_included else ")"
        return f"{opening}{self.low or ''},{self.high or ''}{closing}"


@dataclass(frozen=True, slots=True)
class VersionRequirement:
    """A version has to be in one of the ranges, which are in order and do not overlap."""

    ranges: tuple[VersionRange, ...]

    def __contains__(self, version: str) -> bool:
        return any(version in one for one in self.ranges)

    @override
    def __str__(self) -> str:
        return ",".join(map(str, self.ranges))


def requirement(text: str | None) -> VersionRequirement | None:
    """Parses a `plugin.version`. Returns None if any version is allowed, so that the newest is used. Raises
    ConfigError.
    """
    wanted = (text or "").strip()
    return parse_requirement(wanted) if wanted and wanted != "latest" else None


def parse_requirement(text: str) -> VersionRequirement:
    """Parses a version, a range or several. Raises ConfigError."""
    text = text.strip()
    if text[:1] not in ("[", "("):
        if not text or set(text) & set("[](),"):
            raise ConfigError(f"Invalid version requirement '{text}': expected a version or a range like [1.0,2.0)")
        return VersionRequirement((VersionRange(text, low_included=True, high=text, high_included=True),))
    ranges = tuple(_parse_range(one, text) for one in _NEXT_RANGE.split(text))
    for one, following in pairwise(ranges):
        if one.high is None or following.low is None or sort_key(following.low) < sort_key(one.high):
            raise ConfigError(f"Invalid version range '{text}': its ranges overlap or are not in order")
    return VersionRequirement(ranges)


def _parse_range(text: str, whole: str) -> VersionRange:
    inner = text[1:-1].split(",")
    if text[-1] not in ("]", ")") or len(inner) > 2 or (len(inner) == 1 and not (text[0] == "[" and text[-1] == "]")):
        raise ConfigError(f"Invalid version range '{whole}': expected something like [1.0,2.0), [1.0,) or [1.0]")
    low, high = (part.strip() or None for part in (inner[0], inner[-1]))
    if low is not None and high is not None and sort_key(low) > sort_key(high):
        raise ConfigError(f"Invalid version range '{whole}': its upper bound is below its lower bound")
    return VersionRange(low, text[0] == "[", high, text[-1] == "]")
