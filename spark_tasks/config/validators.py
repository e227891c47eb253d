"""Checks of parsed values. A validator is called with the key and the value, and raises ConfigError; documentation
prints its str() as the valid values.
"""
# ruff: noqa: D102  (Validator.__call__ documents every __call__ here)

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from spark_tasks.config.types import invalid, shown
from spark_tasks.errors import ConfigError
from spark_tasks.java.regex import compile_java


class Validator(Protocol):
    """Checks one parsed value."""

    def __call__(self, name: str, value: Any) -> None:
        """Raise ConfigError if the value is not allowed. None means that it is not set or could not be parsed."""


@dataclass(frozen=True, slots=True)
class Range:
    """A number from `low` to `high`, inclusive, None for no bound; null is refused."""

    low: float | None = None
    high: float | None = None

    def __call__(self, name: str, value: Any) -> None:
        if value is None:
            raise invalid(name, None, "Value must be non-null")
        if self.low is not None and value < self.low:
            raise invalid(name, value, f"Value must be at least {shown(self.low)}")
        if self.high is not None and value > self.high:
            raise invalid(name, value, f"Value must be no more than {shown(self.high)}")

    def __str__(self) -> str:
        return "[" + ",".join(shown(part) for part in (self.low, "...", self.high) if part is not None) + "]"


def at_least(low: float) -> Range:
    """A number of at least `low`."""
    return Range(low)


def between(low: float, high: float) -> Range:
    """A number from `low` to `high`."""
    return Range(low, high)


class OneOf:
    """One of these texts, in this spelling; null is refused unless it is among them."""

    def __init__(self, *values: str | None) -> None:
        self.values = values

    def __call__(self, name: str, value: Any) -> None:
        if value not in self.values:
            raise invalid(name, value, "String must be one of: " + ", ".join(shown(v) for v in self.values))

    def __str__(self) -> str:
        return shown(list(self.values))


class OneOfIgnoringCase:
    """One of these texts in any case; null is refused."""

    def __init__(self, *values: str) -> None:
        self.values = tuple(v.upper() for v in values)

    def __call__(self, name: str, value: Any) -> None:
        if value is None or value.upper() not in self.values:
            raise invalid(name, value, "String must be one of (case insensitive): " + ", ".join(self.values))

    def __str__(self) -> str:
        return f"(case insensitive) {shown(list(self.values))}"


@dataclass(frozen=True, slots=True)
class NonNull:
    """Anything but null."""

    def __call__(self, name: str, value: Any) -> None:
        if value is None:
            raise invalid(name, None, "entry must be non null")

    def __str__(self) -> str:
        return "non-null string"


@dataclass(frozen=True, slots=True)
class NonEmpty:
    """A text with something in it, or null."""

    def __call__(self, name: str, value: Any) -> None:
        if value == "":
            raise invalid(name, value, "String must be non-empty")

    def __str__(self) -> str:
        return "non-empty string"


@dataclass(frozen=True, slots=True)
class NonEmptyNoControlChars:
    """A text with something in it and no control characters, or null."""

    def __call__(self, name: str, value: Any) -> None:
        if value is None:
            return
        if not value:
            raise invalid(name, value, "String may not be empty")
        bad = [str(ord(c)) for c in value if unicodedata.category(c) == "Cc"]
        if bad:
            raise invalid(name, value, "String may not contain control sequences but had the following ASCII chars: "
                          + ", ".join(bad))

    def __str__(self) -> str:
        return "non-empty string without ISO control characters"


class ValidList:
    """A list under the rules of KIP-1161: no empty items, no duplicates (parse drops them, validate reports them).

    `allowed`: the only items there may be; empty for any.
    """

    def __init__(self, *allowed: str, empty: bool = True, null: bool = False) -> None:
        self.allowed = allowed
        self.empty = empty
        self.null = null

    def __call__(self, name: str, value: Any) -> None:
        if value is None:
            if self.null:
                return
            raise ConfigError(f"Configuration '{name}' values must not be null.")
        if not value and not self.empty:
            what = shown(list(self.allowed)) if self.allowed else "any non-empty value"
            raise ConfigError(f"Configuration '{name}' must not be empty. Valid values include: {what}")
        if len(set(value)) != len(value):
            raise ConfigError(f"Configuration '{name}' values must not be duplicated.")
        for item in value:
            if item == "":
                raise ConfigError(f"Configuration '{name}' values must not be empty.")
            if self.allowed:
                OneOf(*self.allowed)(name, item)

    def __str__(self) -> str:
        return shown(list(self.allowed)) if self.allowed else ""


@dataclass(frozen=True, slots=True)
class ListSize:
    """A list of at most `size` items."""

    size: int

    def __call__(self, name: str, value: Any) -> None:
        if value is not None and len(value) > self.size:
            raise invalid(name, value, f"exceeds maximum list size of [{self.size}].")

    def __str__(self) -> str:
        return f"List containing maximum of {self.size} elements"


@dataclass(frozen=True, slots=True)
class Check:
    """Any function as a validator, with the description that documentation prints."""

    function: Callable[[str, Any], None]
    description: str

    def __call__(self, name: str, value: Any) -> None:
        self.function(name, value)

    def __str__(self) -> str:
        return self.description


class Rule:
    """A custom rule: `allowed` describes the valid values, `accepts` checks one."""

    def __init__(self, allowed: str, accepts: Callable[[Any], bool]) -> None:
        self._allowed = allowed
        self._accepts = accepts

    def __call__(self, name: str, value: Any) -> None:
        if not self._accepts(value):
            raise invalid(name, value, f"must be {self._allowed}")

    def __str__(self) -> str:
        return self._allowed


class AllOf:
    """Every one of these validators, in order; the first error counts."""

    def __init__(self, *validators: Validator) -> None:
        self.validators = validators

    def __call__(self, name: str, value: Any) -> None:
        for validator in self.validators:
            validator(name, value)

    def __str__(self) -> str:
        return ", ".join(str(v) for v in self.validators)


class ValidRegex:
    """A validator: the text is a regular expression; null is refused."""

    def __call__(self, name: str, value: Any) -> None:
        """Raise ConfigError if the text is not a regular expression."""
        try:
            compile_java(value)
        except re.error as e:
            raise invalid(name, value, f"Invalid regex: {e}") from None
        except TypeError:
            raise invalid(name, value, "Invalid regex: null") from None

    def __str__(self) -> str:
        return "valid regex"
