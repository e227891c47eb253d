"""The `parquet` sink, which writes values as rows of Parquet files, exactly once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql.datasource import DataSource, DataSourceArrowWriter
from pyspark.sql.types import StructType
from typing_extensions import override

from spark_tasks.config.definition import ConfigDef, ConfigKey, Importance, NonEmpty, OneOf, Type, at_least
from spark_tasks.config.types import parse_type
from spark_tasks.connectors.parquet.settings import ParquetSettings
from spark_tasks.connectors.parquet.writer import ParquetWriter
from spark_tasks.plugins.api import Options, SinkConnector
from spark_tasks.process import code_folders

_CODECS = ("none", "snappy", "gzip", "zstd", "lz4", "brotli")


class ParquetSinkConnector(SinkConnector):
    """Writes Parquet files, with exactly-once delivery. A file's name has its offsets
    (topic-partition-first-last.parquet). It is written with a hidden name, and renamed when the whole batch is
    complete. A task resumes after the offsets of the existing files.
    """

    version = "0.1.0"
    config_def = ConfigDef(
        ConfigKey(
            "path", Type.STRING, validator=NonEmpty(), importance=Importance.HIGH, doc="The folder for the files.",
        ),
        ConfigKey(
            "compression", Type.STRING, default="snappy", validator=OneOf(*_CODECS), doc="The compression codec.",
        ),
        ConfigKey(
            "rotate.records", Type.LONG, default=1_000_000, validator=at_least(0),
            doc="The maximum number of rows in a file; 0: no limit.",
        ),
        ConfigKey(
            "rotate.bytes", Type.LONG, default=128 * 1024 * 1024, validator=at_least(0),
            doc="The size of the rows in memory, in bytes, at which a file is closed; 0: no limit.",
        ),
        ConfigKey(
            "rotate.ms", Type.LONG, default=0, validator=at_least(0),
            doc="The time after which a file is closed; 0: no limit. Files are always closed at the end of a batch.",
        ),
        ConfigKey(
            "kafka.columns", Type.BOOLEAN, default=False,
            doc="Whether rows start with the columns _topic, _partition, _offset and _timestamp of the record, which "
                "then may not have fields with these names.",
        ),
    )  # fmt: skip

    @classmethod
    @override
    def validate(cls, config: Options) -> Mapping[str, Sequence[str]]:
        return code_folders.mistakes("path", parse_type("path", config.get("path"), Type.STRING))

    @classmethod
    @override
    def data_source(cls, options: Options) -> DataSource:
        return ParquetData(dict(options))


class ParquetData(DataSource):  # type: ignore[misc]  # PySpark has no types
    """A folder of Parquet files."""

    @classmethod
    @override
    def name(cls) -> str:
        return "heeler-parquet"

    @override
    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        options: Mapping[str, Any] = ParquetSinkConnector.config_def.parse(dict(self.options))
        return ParquetWriter(
            ParquetSettings(
                options["path"], options["compression"], options["rotate.records"], options["rotate.bytes"],
                options["rotate.ms"], options["kafka.columns"], code_folders.of_plugins(),
            )
        )  # fmt: skip
