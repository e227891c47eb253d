"""What transforms and predicates are: from batches of Connect records to others, in columns."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from typing import ClassVar

import pyarrow as pa

from spark_tasks.config.definition import ConfigDef
from spark_tasks.pipeline.converters.base import HeaderConverter


class Transform(ABC):
    """Changes records. Made without arguments, then configured once; may leave records out, keeps their order."""

    version: ClassVar[str] = "unknown"
    config_def: ClassVar[ConfigDef] = ConfigDef()
    aliases: ClassVar[tuple[str, ...]] = ()
    header_converter: HeaderConverter | None = None  # the task's, for those that write headers; set before apply

    @abstractmethod
    def configure(self, configs: Mapping[str, str]) -> None:
        """Take the configuration (without the prefix transforms.<alias>.)."""

    @abstractmethod
    def apply(self, batch: pa.RecordBatch) -> pa.RecordBatch | Iterable[pa.RecordBatch]:
        """The records that come out; several batches where one cannot hold them (other schemas, other topics).

        BadRowError names the row that cannot be changed; any other DataError says that some record of the batch is it.
        """


class Predicate(ABC):
    """Says which records a transform is for. Made without arguments, then configured once."""

    version: ClassVar[str] = "unknown"
    config_def: ClassVar[ConfigDef] = ConfigDef()
    aliases: ClassVar[tuple[str, ...]] = ()

    @abstractmethod
    def configure(self, configs: Mapping[str, str]) -> None:
        """Take the configuration (without the prefix predicates.<alias>.)."""

    @abstractmethod
    def test(self, batch: pa.RecordBatch) -> pa.BooleanArray:
        """True, for each record, where it is one of them."""
