"""The interfaces of transforms and predicates, which work on batches of Connect records in columns."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from typing import ClassVar

import pyarrow as pa

from spark_tasks.config.definition import ConfigDef
from spark_tasks.pipeline.converters.base import HeaderConverter


class Transform(ABC):
    """Changes records. Made without arguments, then configured once. May drop records; keeps the order of the rest."""

    version: ClassVar[str] = "unknown"
    config_def: ClassVar[ConfigDef] = ConfigDef()
    aliases: ClassVar[tuple[str, ...]] = ()
    header_converter: HeaderConverter | None = None  # the task's; set before apply

    @abstractmethod
    def configure(self, configs: Mapping[str, str]) -> None:
        """Take the configuration, its keys without the prefix transforms.<alias>."""

    @abstractmethod
    def apply(self, batch: pa.RecordBatch) -> pa.RecordBatch | Iterable[pa.RecordBatch]:
        """The resulting records, in several batches where one cannot hold them (different schemas or topics).

        BadRowError names the row that cannot be changed; any other DataError means that some record of the batch
        cannot.
        """


class Predicate(ABC):
    """Chooses the records that a transform is applied to. Made without arguments, then configured once."""

    version: ClassVar[str] = "unknown"
    config_def: ClassVar[ConfigDef] = ConfigDef()
    aliases: ClassVar[tuple[str, ...]] = ()

    @abstractmethod
    def configure(self, configs: Mapping[str, str]) -> None:
        """Take the configuration, its keys without the prefix predicates.<alias>."""

    @abstractmethod
    def test(self, batch: pa.RecordBatch) -> pa.BooleanArray:
        """For each record, whether the predicate holds."""
