"""Kafka Connect's predicates."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from typing_extensions import override

from spark_tasks.config.definition import AllOf, ConfigDef, ConfigKey, NonEmpty, Type
from spark_tasks.config.validators import ValidRegex
from spark_tasks.java.regex import compile_java
from spark_tasks.pipeline.transforms.base import Predicate
from spark_tasks.pipeline.transforms.headers import has_header
from spark_tasks.pipeline.transforms.topics import topic_matches, topics_of


class HasHeaderKey(Predicate):
    """Selects records that have a header with this name."""

    version = "4.3.1"
    config_def = ConfigDef(ConfigKey("name", Type.STRING, validator=NonEmpty(), doc="The header's name."))

    @override
    def configure(self, configs: Mapping[str, str]) -> None:
        self._name = self.config_def.parse(configs)["name"]

    @override
    def test(self, batch: pa.RecordBatch) -> pa.BooleanArray:
        return has_header(batch, self._name)


class RecordIsTombstone(Predicate):
    """Selects records whose value is null."""

    version = "4.3.1"

    @override
    def configure(self, configs: Mapping[str, str]) -> None:
        """Does nothing: there are no settings."""

    @override
    def test(self, batch: pa.RecordBatch) -> pa.BooleanArray:
        return pc.is_null(batch.column("value"))


class TopicNameMatches(Predicate):
    """Selects records whose whole topic name matches the pattern."""

    version = "4.3.1"
    config_def = ConfigDef(
        ConfigKey("pattern", Type.STRING, validator=AllOf(NonEmpty(), ValidRegex()),
                  doc="A Java regular expression."),
    )

    @override
    def configure(self, configs: Mapping[str, str]) -> None:
        self._pattern = compile_java(self.config_def.parse(configs)["pattern"])

    @override
    def test(self, batch: pa.RecordBatch) -> pa.BooleanArray:
        topics = topics_of(batch)
        used = set(topics.indices.unique().to_pylist())
        fits = [index in used and name is not None and topic_matches(self._pattern, name, "pattern")
                for index, name in enumerate(topics.dictionary.to_pylist())]
        if not fits:
            return pa.array(np.zeros(len(batch), np.bool_))
        return pc.fill_null(pa.array(fits).take(topics.indices), False)
