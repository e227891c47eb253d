"""The subject name strategies, which determine the subject of a schema in the registry."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from spark_tasks.errors import ConfigError
from spark_tasks.registry.errors import UnusableSchemaError
from spark_tasks.registry.settings import ASSOCIATED_NAME, RECORD_NAME, TOPIC_NAME, TOPIC_RECORD_NAME

_FALLBACK = "subject.name.strategy.fallback.type"
_BY_WORD = {"TOPIC": TOPIC_NAME, "RECORD": RECORD_NAME, "TOPIC_RECORD": TOPIC_RECORD_NAME}


class Subjects:
    """Names subjects according to key.subject.name.strategy or value.subject.name.strategy.

    The default, AssociatedNameStrategy, asks the registry for associations of topics, which only Confluent's registry
    has. heeler always uses its fallback: the topic, unless subject.name.strategy.fallback.type is set.
    """

    def __init__(self, values: Mapping[str, Any], configs: Mapping[str, str], *, is_key: bool) -> None:
        self._part = "key" if is_key else "value"
        self._setting = f"{self._part}.subject.name.strategy"
        strategy = values[self._setting]
        if strategy == ASSOCIATED_NAME:
            word = str(configs.get(_FALLBACK, "TOPIC")).upper()
            if word not in _BY_WORD:
                raise ConfigError(f"Invalid value {word} for configuration {_FALLBACK}: must be one of "
                                  f"{', '.join(_BY_WORD)}")
            strategy = _BY_WORD[word]
        self._strategy = strategy

    @property
    def need_record(self) -> bool:
        """Whether the subject depends on the schema."""
        return bool(self._strategy != TOPIC_NAME)

    def subject(self, topic: str, record: str | None) -> str:
        """Returns the subject of a schema. `record`: the full name of the schema, or None. Raises UnusableSchemaError
        if the strategy requires a name.
        """
        if self._strategy == TOPIC_NAME:
            return f"{topic}-{self._part}"
        if not record:
            raise UnusableSchemaError(f"{self._setting} is {self._strategy}: the message {self._part} must only be a "
                                      "record schema")
        return record if self._strategy == RECORD_NAME else f"{topic}-{record}"
