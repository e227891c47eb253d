"""The interfaces of transforms and predicates, which process batches of Connect records in columns."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from typing import ClassVar

import pyarrow as pa

from spark_tasks.config.definition import ConfigDef
from spark_tasks.pipeline.transforms.header_values import HeaderWriter


class Transform(ABC):
    """Changes records. Its constructor has no arguments; `configure` is called once. It may drop records, and keeps the
    order of all others. `adds_records`: whether it may make several records from one, so that their number does not
    show which record became which.
    """

    version: ClassVar[str] = "unknown"
    config_def: ClassVar[ConfigDef] = ConfigDef()
    aliases: ClassVar[tuple[str, ...]] = ()
    header_writer: HeaderWriter = HeaderWriter()  # the task's; set before apply
    adds_records: bool = False

    @abstractmethod
    def configure(self, configs: Mapping[str, str]) -> None:
        """Applies the configuration. `configs`: without the prefix `transforms.<alias>.`."""

    @abstractmethod
    def apply(self, batch: pa.RecordBatch) -> pa.RecordBatch | Iterable[pa.RecordBatch]:
        """Returns the resulting records, in several batches if they do not fit into one (different schemas).

        Raises BadRowError with the row that cannot be changed, or another DataError if the row is unknown.
        """


class Predicate(ABC):
    """Selects the records for a transform. Its constructor has no arguments; `configure` is called once."""

    version: ClassVar[str] = "unknown"
    config_def: ClassVar[ConfigDef] = ConfigDef()
    aliases: ClassVar[tuple[str, ...]] = ()

    @abstractmethod
    def configure(self, configs: Mapping[str, str]) -> None:
        """Applies the configuration. `configs`: without the prefix `predicates.<alias>.`."""

    @abstractmethod
    def test(self, batch: pa.RecordBatch) -> pa.BooleanArray:
        """Returns for each record whether the predicate is true."""
