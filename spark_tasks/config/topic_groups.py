"""A source connector's `topic.creation.*` settings (KIP-158): those of new topics, by group."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from typing_extensions import override

from spark_tasks.config.connector_keys import SOURCE
from spark_tasks.config.types import Type, invalid, parse_type
from spark_tasks.errors import ConfigError
from spark_tasks.java.bounded_match import TOO_SLOW, matches
from spark_tasks.java.regex import compile_java

_PREFIX = "topic.creation."
_PATTERNS = ("include", "exclude")
_NUMBERS = {"replication.factor": Type.SHORT, "partitions": Type.INT}
_ALLOWED = {
    "replication.factor": "Replication factor must be positive and not larger than the number of brokers in the Kafka "
                          "cluster, or -1 to use the broker's default",
    "partitions": "Number of partitions must be positive, or -1 to use the broker's default",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class TopicSettings:
    """The settings of a new topic. -1 means the brokers' default."""

    partitions: int
    replication_factor: int
    configs: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TopicPatterns:
    """The patterns of one setting, `key`, whose value is `text`."""

    key: str
    text: str
    patterns: tuple[re.Pattern[str], ...] = field(compare=False)

    @override
    def __reduce__(self) -> tuple[Any, ...]:
        """Only the text is pickled: patterns can be unpickled only by the same release of the library `regex`."""
        return type(self).of, ({self.key: self.text}, self.key)

    @classmethod
    def of(cls, settings: Mapping[str, str], key: str) -> Self:
        """Parses the setting. Raises ConfigError."""
        text = settings.get(key, "")
        texts = parse_type(key, text, Type.LIST)
        try:
            return cls(key, text, tuple(compile_java(one) for one in texts if one))
        except re.error as error:
            raise invalid(key, texts, f"Syntax error in regular expression: {error}") from error

    def match(self, topic: str) -> bool:
        """Returns whether a pattern matches the topic. Raises ConfigError if that takes too long."""
        try:
            return any(matches(pattern, topic) for pattern in self.patterns)
        except TimeoutError as error:
            raise invalid(self.key, self.text, f"with the topic {topic}, it {TOO_SLOW}") from error


@dataclass(frozen=True, slots=True)
class TopicGroup:
    """A group has the topics that `include` matches and `exclude` does not."""

    settings: TopicSettings
    include: TopicPatterns
    exclude: TopicPatterns

    def has(self, topic: str) -> bool:
        """Returns whether the topic is in the group. Raises ConfigError if a pattern takes too long."""
        return self.include.match(topic) and not self.exclude.match(topic)


@dataclass(frozen=True, slots=True)
class TopicGroups:
    """The groups of a connector, and the settings of topics that are in none of them."""

    groups: tuple[TopicGroup, ...]
    default: TopicSettings

    @classmethod
    def of(cls, connector: Mapping[str, str]) -> Self | None:
        """Parses a connector's configuration; None if it leaves topic creation to the brokers. Raises ConfigError for
        invalid settings of any group, even if no topic has to be created. Patterns of the default group have no
        meaning.
        """
        settings = {k: v for k, v in connector.items() if k.startswith(_PREFIX) and v is not None}
        if not settings:
            return None
        default = _settings(settings, "default")
        groups = tuple(
            TopicGroup(_settings(settings, group),
                       *(TopicPatterns.of(settings, f"{_PREFIX}{group}.{key}") for key in _PATTERNS))
            for group in _names(settings))
        return cls(groups, default)

    def settings_of(self, topic: str) -> TopicSettings:
        """Returns the settings of a new topic: those of the first group that has it, or the default ones. Raises
        ConfigError if a pattern takes too long.
        """
        return next((group.settings for group in self.groups if group.has(topic)), self.default)


def _names(settings: Mapping[str, str]) -> list[str]:
    """Returns the names of the groups other than the default one. Raises ConfigError."""
    key = SOURCE.keys[_PREFIX + "groups"]
    named: list[str] = parse_type(key.name, settings.get(key.name, ""), key.type)
    if key.validator is not None:
        key.validator(key.name, named)
    return [group for group in named if group and group != "default"]


def _settings(settings: Mapping[str, str], group: str) -> TopicSettings:
    prefix = f"{_PREFIX}{group}."
    own = {k.removeprefix(prefix): v for k, v in settings.items() if k.startswith(prefix)}
    replication_factor, partitions = (_number(settings, group, key) for key in _NUMBERS)
    configs = {k: v for k, v in own.items() if k not in (*_PATTERNS, *_NUMBERS)}
    return TopicSettings(partitions, replication_factor, configs)


def _number(settings: Mapping[str, str], group: str, key: str) -> int:
    name = f"{_PREFIX}{group}.{key}"
    if name not in settings:
        if group == "default":
            raise ConfigError(f'Missing required configuration "{name}" which has no default value.')
        return _number(settings, "default", key)
    value: int = parse_type(name, settings[name], _NUMBERS[key])
    if value < 1 and value != -1:
        raise invalid(name, value, _ALLOWED[key])
    return value
