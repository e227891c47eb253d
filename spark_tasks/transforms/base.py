"""What a transform is: from one batch of Connect records to another, in columns."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import ClassVar

import pyarrow as pa

from spark_tasks.config_def import ConfigDef


class Transform(ABC):
    """Changes records. Made without arguments, then configured once; may leave records out, keeps their order."""

    version: ClassVar[str] = "unknown"
    config_def: ClassVar[ConfigDef] = ConfigDef()
    aliases: ClassVar[tuple[str, ...]] = ()

    @abstractmethod
    def configure(self, configs: Mapping[str, str]) -> None:
        """Take the configuration (without the prefix transforms.<alias>.)."""

    @abstractmethod
    def apply(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The records that come out; DataError where one cannot be changed."""
