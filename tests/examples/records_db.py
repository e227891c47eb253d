import json
import sqlite3
from contextlib import closing

from pyspark.sql.datasource import DataSource, DataSourceArrowWriter, WriterCommitMessage

from heeler import ConfigDef, ConfigKey, SinkConnector, Type


class RecordsWriter(DataSourceArrowWriter):
    def __init__(self, path):
        self.path = path

    def write(self, iterator):
        with closing(sqlite3.connect(self.path, timeout=60)) as db, db:
            db.execute("CREATE TABLE IF NOT EXISTS records (place PRIMARY KEY, value)")
            for batch in iterator:
                for row in batch.to_pylist():
                    place = f"{row['topic']}-{row['partition']}-{row['offset']}"
                    db.execute("REPLACE INTO records VALUES (?, ?)", [place, json.dumps(row["value"], default=str)])
        return WriterCommitMessage()


class Records(DataSource):
    def writer(self, schema, overwrite):
        return RecordsWriter(self.options["path"])


class RecordsSinkConnector(SinkConnector):
    config_def = ConfigDef(ConfigKey("path", Type.STRING, doc="The SQLite file."))

    @classmethod
    def data_source(cls, options):
        return Records(options)
