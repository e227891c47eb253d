"""The `files` source, which reads CSV, JSON lines and Parquet files of a folder. Files may be added and grow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql.datasource import DataSource, DataSourceStreamReader
from pyspark.sql.types import StructType
from typing_extensions import override

from spark_tasks.config.definition import ConfigDef, ConfigKey, Importance, NonEmpty, OneOf, Type, at_least
from spark_tasks.connectors.files.reader import FilesReader
from spark_tasks.connectors.files.settings import FilesSettings
from spark_tasks.connectors.numbered_tasks import TaskNumber, numbered
from spark_tasks.connectors.offset_checks import check_count
from spark_tasks.errors import ConnectError
from spark_tasks.plugins.api import AlteredOffsets, Options, SourceConnector

_NAME = "files"


class FilesSourceConnector(SourceConnector):
    """Reads files. A file is a source partition {"filename"}. Its offset {"position"} is the number of bytes read of a
    CSV or JSON file, or of row groups of a Parquet file.

    The rows of a file keep their order. Several files are read in parallel, and distributed to the tasks.
    """

    version = "0.1.0"
    config_def = ConfigDef(
        ConfigKey(
            "path", Type.STRING, validator=NonEmpty(), importance=Importance.HIGH,
            doc="The folder, or a single file. If it does not exist, the tasks wait for it, and log a warning.",
        ),
        ConfigKey("topic", Type.STRING, validator=NonEmpty(), importance=Importance.HIGH, doc="The topic to write to."),
        ConfigKey(
            "format", Type.STRING, default="auto", validator=OneOf("auto", "csv", "json", "parquet"),
            importance=Importance.HIGH, doc="The format of the files; auto determines it from their names.",
        ),
        ConfigKey("pattern", Type.STRING, default="*", doc="Names of files, such as *.csv; hidden files are skipped."),
        ConfigKey("recursive", Type.BOOLEAN, default=False, doc="Whether to read subfolders."),
        ConfigKey(
            "schema", Type.STRING, default=None,
            doc="The columns and types of CSV files, for example: id BIGINT, name STRING, at TIMESTAMP_NTZ (2024-01-02 "
                "03:04:05; TIMESTAMP if times have a zone). Unset: inferred from the first rows of the first file.",
        ),
        ConfigKey(
            "csv.delimiter", Type.STRING, default=",", doc="The ASCII character between fields; \\t for a tab.",
        ),
        ConfigKey("csv.quote", Type.STRING, default='"', doc="The ASCII character around quoted fields."),
        ConfigKey(
            "csv.header", Type.BOOLEAN, default=True, doc="Whether each file starts with a line of column names.",
        ),
        ConfigKey(
            "csv.null.values", Type.LIST, default=",NA,N/A,NULL,null,NaN", doc="Unquoted values that mean null.",
        ),
        ConfigKey("csv.multiline", Type.BOOLEAN, default=False, doc="Whether quoted fields may contain line ends."),
        ConfigKey(
            "last.line.wait.ms", Type.LONG, default=60000, validator=at_least(-1),
            doc="How long a file must be unchanged before an unterminated last line is read; -1: never.",
        ),
        ConfigKey(
            "files.parallel", Type.INT, default=4, validator=at_least(1), doc="The maximum number of files in a batch.",
        ),
    )  # fmt: skip

    @classmethod
    @override
    def validate(cls, config: Options) -> Mapping[str, Sequence[str]]:
        return FilesSettings.problems(config)

    @override
    def task_configs(self, max_tasks: int) -> Sequence[Options]:
        """Returns `max_tasks` configurations. A hash of its name assigns each file to a task."""
        return numbered(_NAME, self.config, max_tasks)

    @classmethod
    @override
    def data_source(cls, options: Options) -> DataSource:
        return FilesData(dict(options))

    @classmethod
    @override
    def exactly_once_support(cls, config: Options) -> bool | None:
        """Returns True, as files can be read again from any position."""
        return True

    @classmethod
    @override
    def alter_offsets(cls, config: Options, offsets: AlteredOffsets) -> bool:
        """Raises ConnectError unless each offset has a non-negative position and each partition a file name."""
        for partition, offset in offsets:
            if offset is None:
                continue
            check_count(offset, "position")
            if partition is None:
                raise ConnectError("Partition objects cannot be null")
            if not isinstance(partition.get("filename"), str):
                raise ConnectError("Partition objects should contain the key 'filename'")
        return True


class FilesData(DataSource):  # type: ignore[misc]  # PySpark has no types
    """The files of one task."""

    @classmethod
    @override
    def name(cls) -> str:
        return _NAME

    def schema(self) -> str:
        """Returns the names of the columns of Connect records."""
        return "topic string, value string"

    @override
    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        options: dict[str, Any] = dict(self.options)
        task = TaskNumber.taken(_NAME, options)
        parsed = FilesSourceConnector.config_def.parse(options)
        return FilesReader(FilesSettings.of(parsed, options), task.index, task.count)
