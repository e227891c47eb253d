"""Validators of parsed values. A validator is called with the key and the value, and raises ConfigError. Its str()
describes the valid values for documentation.
"""
# ruff: noqa: D102  (Validator.__call__ documents every __call__ here)

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from typing_extensions import override

from spark_tasks.config.types import invalid, shown
from spark_tasks.errors import ConfigError
from spark_tasks.java.regex import compile_java


class Validator(Protocol):
    """Validates one parsed value."""

    def __call__(self, name: str, value: Any) -> None:
        """Raises ConfigError if the value is not allowed. None means that it is not set or could not be parsed."""


@dataclass(frozen=True, slots=True)
class Range:
    """Allows a number from `low` to `high`, inclusive. None means that there is no bound. Rejects null."""

    low: float | None = None
    high: float | None = None

    def __call__(self, name: str, value: Any) -> None:
        if value is None:
            raise invalid(name, None, "Value must be non-null")
        if self.low is not None and value < self.low:
            raise invalid(name, value, f"Value must be at least {shown(self.low)}")
        if self.high is not None and value > self.high:
            raise invalid(name, value, f"Value must be no more than {shown(self.high)}")

    @override
    def __str__(self) -> str:
        return "[" + ",".join(shown(part) for part in (self.low, "...", self.high) if part is not None) + "]"


def at_least(low: float) -> Range:
    """Returns a validator that allows numbers of at least `low`."""
    return Range(low)


def between(low: float, high: float) -> Range:
    """Returns a validator that allows numbers from `low` to `high`, inclusive."""
    return Range(low, high)


class OneOf:
    """Allows these strings, case-sensitively. Rejects null unless it is one of `values`."""

    def __init__(self, *values: str | None) -> None:
        self.values = values

    def __call__(self, name: str, value: Any) -> None:
        if value not in self.values:
            raise invalid(name, value, "String must be one of: " + ", ".join(shown(v) for v in self.values))

    @override
    def __str__(self) -> str:
        return shown(list(self.values))


class OneOfIgnoringCase:
    """Allows these strings in any case. Rejects null."""

    def __init__(self, *values: str) -> None:
        self.values = tuple(v.upper() for v in values)

    def __call__(self, name: str, value: Any) -> None:
        if value is None or value.upper() not in self.values:
            raise invalid(name, value, "String must be one of (case insensitive): " + ", ".join(self.values))

    @override
    def __str__(self) -> str:
        return f"(case insensitive) {shown(list(self.values))}"


@dataclass(frozen=True, slots=True)
class NonNull:
    """Allows any value but null."""

    def __call__(self, name: str, value: Any) -> None:
        if value is None:
            raise invalid(name, None, "entry must be non null")

    @override
    def __str__(self) -> str:
        return "non-null string"


@dataclass(frozen=True, slots=True)
class NonEmpty:
    """Allows non-empty strings and null."""

    def __call__(self, name: str, value: Any) -> None:
        if value == "":
            raise invalid(name, value, "String must be non-empty")

    @override
    def __str__(self) -> str:
        return "non-empty string"


@dataclass(frozen=True, slots=True)
class NonEmptyNoControlChars:
    """Allows non-empty strings without control characters, and null."""

    def __call__(self, name: str, value: Any) -> None:
        if value is None:
            return
        if not value:
            raise invalid(name, value, "String may not be empty")
        bad = [str(ord(c)) for c in value if unicodedata.category(c) == "Cc"]
        if bad:
            raise invalid(name, value, "String may not contain control sequences but had the following ASCII chars: "
                          + ", ".join(bad))

    @override
    def __str__(self) -> str:
        return "non-empty string without ISO control characters"


class ValidList:
    """Allows a list according to KIP-1161: without empty items and duplicates (`parse` drops duplicates, `validate`
    reports them).

    `allowed`: the allowed items; none means any. `empty`, `null`: whether to allow an empty list and null.
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

    @override
    def __str__(self) -> str:
        return shown(list(self.allowed)) if self.allowed else ""


@dataclass(frozen=True, slots=True)
class ListSize:
    """Allows a list of at most `size` items, and null."""

    size: int

    def __call__(self, name: str, value: Any) -> None:
        if value is not None and len(value) > self.size:
            raise invalid(name, value, f"exceeds maximum list size of [{self.size}].")

    @override
    def __str__(self) -> str:
        return f"List containing maximum of {self.size} elements"


@dataclass(frozen=True, slots=True)
class Check:
    """Makes a function a validator, with a description of the valid values for documentation."""

    function: Callable[[str, Any], None]
    description: str

    def __call__(self, name: str, value: Any) -> None:
        self.function(name, value)

    @override
    def __str__(self) -> str:
        return self.description


class Rule:
    """A custom rule. `allowed`: a description of the valid values; `accepts`: returns whether a value is valid."""

    def __init__(self, allowed: str, accepts: Callable[[Any], bool]) -> None:
        self._allowed = allowed
        self.function = accepts

    def __call__(self, name: str, value: Any) -> None:
        if not self.function(value):
            raise invalid(name, value, f"must be {self._allowed}")

    @override
    def __str__(self) -> str:
        return self._allowed


class AllOf:
    """Requires all of these validators, in order. Raises the first error."""

    def __init__(self, *validators: Validator) -> None:
        self.validators = validators

    def __call__(self, name: str, value: Any) -> None:
        for validator in self.validators:
            validator(name, value)

    @override
    def __str__(self) -> str:
        return ", ".join(str(v) for v in self.validators)


def functions_of(validator: Validator | None) -> Iterator[Any]:
    """Yields the functions that a validator calls: those that its author has passed, or else the validator itself."""
    match validator:
        case None:
            return
        case Check() | Rule():
            yield validator.function
        case AllOf():
            for one in validator.validators:
                yield from functions_of(one)
        case _:
            yield validator


def _in_javas_words(error: re.error) -> str:
    """Returns the error as a PatternSyntaxException shows it: with the pattern and a mark at the place in it."""
    pattern, place = str(error.pattern), error.pos
    if place is None:
        return f"{error.msg}\n{pattern}"
    mark = f"\n{' ' * place}^" if place < len(pattern) else ""
    return f"{error.msg} near index {place}\n{pattern}{mark}"


class ValidRegex:
    """Allows a valid regular expression of Java. Rejects null."""

    def __call__(self, name: str, value: Any) -> None:
        """Raises ConfigError unless the value is a valid regular expression."""
        try:
            compile_java(value)
        except re.error as e:
            raise invalid(name, value, f"Invalid regex: {_in_javas_words(e)}") from None
        except TypeError:
            null = 'Cannot invoke "String.isEmpty()" because "this.pattern" is null'
            raise invalid(name, value, f"Invalid regex: {null}") from None

    @override
    def __str__(self) -> str:
        return "valid regex"
