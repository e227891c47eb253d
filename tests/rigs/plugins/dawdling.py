"""The parquet sink, delayed by a second per batch until the file `release` exists."""

import time
from pathlib import Path

from spark_tasks.config.definition import ConfigDef, ConfigKey, Type
from spark_tasks.connectors.parquet.connector import ParquetData, ParquetSinkConnector
from spark_tasks.connectors.parquet.writer import ParquetWriter

KEYS = ConfigDef(ConfigKey("release", Type.STRING, doc="The file."))


class Writer(ParquetWriter):
    def __init__(self, settings, release):
        super().__init__(settings)
        self._release = release

    def __reduce__(self):
        return Writer, (self.settings, self._release)

    def write(self, iterator):
        if not Path(self._release).exists():
            time.sleep(1.0)
        return super().write(iterator)


class Data(ParquetData):
    def writer(self, schema, overwrite):
        return Writer(super().writer(schema, overwrite).settings, self.options["release"])


class DawdlingSinkConnector(ParquetSinkConnector):
    config_def = ParquetSinkConnector.config_def.plus(KEYS)

    @classmethod
    def data_source(cls, options):
        return Data(dict(options))
