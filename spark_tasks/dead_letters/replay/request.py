"""The parameters of a replay of the dead letter queue."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_tasks.dead_letters.letters import DeadLetters
from spark_tasks.errors import ConfigError
from spark_tasks.pipeline.errors.failures import FailedStage

_MAX_INT64: Final = 2**63 - 1
_LONGEST: Final = 1000  # of a regular expression, which RE2 matches in linear time
_STAGES: Final = tuple(stage.value for stage in FailedStage)
_KEYS: Final = ("dry_run", "values", "limit", "filter", "keeps_no_offsets")
_FILTER: Final = ("topics", "stages", "exception", "message", "from", "to", "partition", "first_offset", "last_offset")


@dataclass(frozen=True, slots=True)
class ReplayOrder:
    """Which letters to replay; an empty or None value restricts nothing. `first_ms` (inclusive) and `end_ms`
    (exclusive) apply to the records' timestamps; `partition`, `first_offset` and `end_offset` (exclusive) to the queue.
    `exception` and `message` are regular expressions (RE2) that are searched for in the exception's class name and
    message. `values`: the report includes record values. `limit`: the maximum number of letters.
    `keeps_no_offsets`: the connector, a Java sink, finds no position in its target, although it might.
    """

    dry_run: bool = False
    values: bool = False
    limit: int | None = None
    topics: tuple[str, ...] = ()
    stages: tuple[str, ...] = ()
    exception: str = ""
    message: str = ""
    first_ms: int | None = None
    end_ms: int | None = None
    partition: int | None = None
    first_offset: int = 0
    end_offset: int = _MAX_INT64
    keeps_no_offsets: bool = False

    @classmethod
    def of(cls, body: Mapping[str, Any]) -> ReplayOrder:
        """Parses a request's body. Raises ConfigError."""
        _check_keys(body, _KEYS, "the request")
        chosen = body.get("filter")
        chosen = {} if chosen is None else chosen
        if not isinstance(chosen, Mapping):
            raise ConfigError("filter must be an object")
        _check_keys(chosen, _FILTER, "filter")
        stages = _texts(chosen, "stages")
        for stage in stages:
            if stage not in _STAGES:
                raise ConfigError(f"stages has the unknown stage {stage}; valid stages are {', '.join(_STAGES)}")
        first, last = _number(chosen, "first_offset", 0) or 0, _number(chosen, "last_offset", 0)
        if last is not None and last < first:
            raise ConfigError(f"last_offset ({last}) must not be less than first_offset ({first})")
        begin, end = _moment(chosen, "from"), _moment(chosen, "to")
        if begin is not None and end is not None and end <= begin:
            raise ConfigError(f"to ({chosen['to']}) must be later than from ({chosen['from']})")
        return cls(
            _flag(body, "dry_run"), _flag(body, "values"), _number(body, "limit", 1), _texts(chosen, "topics"), stages,
            _pattern(chosen, "exception"), _pattern(chosen, "message"), begin, end,
            _number(chosen, "partition", 0), first,
            _MAX_INT64 if last is None else min(last + 1, _MAX_INT64), _flag(body, "keeps_no_offsets"),
        )

    def takes(self, letters: DeadLetters) -> np.ndarray[Any, Any]:
        """Returns for each letter whether it matches (bool array). The caller checks the partition."""
        conditions = []
        if self.topics:
            conditions.append(pc.is_in(letters.topic, pa.array(self.topics)))
        if self.stages:
            conditions.append(pc.is_in(letters.stage, pa.array(self.stages)))
        if self.exception:
            conditions.append(pc.match_substring_regex(letters.error_class, self.exception))
        if self.message:
            conditions.append(pc.match_substring_regex(letters.message, self.message))
        times, offsets = letters.raw.column("timestamp"), letters.raw.column("offset")
        if self.first_ms is not None:
            conditions.append(pc.greater_equal(times, self.first_ms))
        if self.end_ms is not None:
            conditions.append(pc.less(times, self.end_ms))
        conditions += [pc.greater_equal(offsets, self.first_offset), pc.less(offsets, self.end_offset)]
        taken: np.ndarray[Any, Any] = np.logical_and.reduce(
            [condition.fill_null(False).to_numpy(False) for condition in conditions])
        return taken

    @property
    def in_order(self) -> bool:
        """Whether the filter matches all letters before any letter that it matches."""
        chosen = (self.topics, self.stages, self.exception, self.message, self.first_ms, self.end_ms)
        return not self.first_offset and all(setting in ((), "", None) for setting in chosen)


def _check_keys(body: Mapping[str, Any], keys: tuple[str, ...], what: str) -> None:
    for key in body:
        if key not in keys:
            raise ConfigError(f"{what} has the unknown member {str(key)[:100]}; allowed are {', '.join(keys)}")


def _flag(body: Mapping[str, Any], key: str) -> bool:
    value = body.get(key)
    if value is not None and not isinstance(value, bool):
        raise ConfigError(f"{key} must be true or false")
    return bool(value)


def _number(body: Mapping[str, Any], key: str, minimum: int) -> int | None:
    value = body.get(key)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or not minimum <= value <= _MAX_INT64:
        raise ConfigError(f"{key} must be a whole number of at least {minimum}")
    return value


def _texts(body: Mapping[str, Any], key: str) -> tuple[str, ...]:
    value = body.get(key)
    if value is None:
        return ()
    if not isinstance(value, list) or not value or not all(isinstance(item, str) for item in value):
        raise ConfigError(f"{key} must be a list of one or more strings")
    return tuple(_written(key, item) for item in value)


def _pattern(body: Mapping[str, Any], key: str) -> str:
    value = body.get(key)
    if value is None:
        return ""
    if not isinstance(value, str) or not 0 < len(value) <= _LONGEST:
        raise ConfigError(f"{key} must be a regular expression of at most {_LONGEST} characters")
    try:
        pc.match_substring_regex(pa.array([""]), _written(key, value))
    except pa.ArrowInvalid as error:
        raise ConfigError(f"{key} is not a valid regular expression: {error}") from error
    return value


def _written(key: str, text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ConfigError(f"{key} has an unpaired surrogate") from error
    return text


def _moment(body: Mapping[str, Any], key: str) -> int | None:
    value = body.get(key)
    if isinstance(value, str):
        try:
            moment = dt.datetime.fromisoformat(value.strip())
            return int((moment if moment.tzinfo else moment.replace(tzinfo=dt.UTC)).timestamp() * 1000)
        except (ValueError, OverflowError) as error:
            raise ConfigError(f"{key} must be a time (2026-11-22T18:00:00Z) or milliseconds since 1970") from error
    return _number(body, key, 0)
