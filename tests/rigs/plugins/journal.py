"""A source of records with headers, and a sink that records everything it gets."""

import json
from datetime import datetime

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceWriter,
    InputPartition,
    WriterCommitMessage,
)

from heeler import ConfigDef, ConfigKey, SinkConnector, SourceConnector, Type


class Letters(DataSourceStreamReader):
    def __init__(self, topic):
        self.topic = topic

    def initialOffset(self):
        return {"n": 0}

    def latestOffset(self, start, limit):
        return {"n": 5}

    def partitions(self, start, end):
        return [InputPartition((start["n"], end["n"]))] if start["n"] < end["n"] else []

    def read(self, partition):
        for n in range(*partition.value):
            headers = [("n", str(n).encode()), ("n", b"\xff"), ("none", None)] if n else None
            yield self.topic, None, 1_700_000_000_000 + n, f"key {n}", f"value {n}", headers


class LettersData(DataSource):
    def schema(self):
        return ("topic string, partition int, timestamp bigint, key string, value string, "
                "headers array<struct<key: string, value: binary>>")

    def streamReader(self, schema):
        return Letters(self.options["topic"])


class LettersSourceConnector(SourceConnector):
    config_def = ConfigDef(ConfigKey("topic", Type.STRING, doc="The topic to write to."))

    @classmethod
    def data_source(cls, options):
        return LettersData(options)


class JournalWriter(DataSourceWriter):
    def __init__(self, file):
        self.file = file

    def write(self, iterator):
        with open(self.file, "a") as out:
            out.writelines(json.dumps(row.asDict(recursive=True), default=str) + "\n" for row in iterator)
        return WriterCommitMessage()


class JournalData(DataSource):
    def writer(self, schema, overwrite):
        return JournalWriter(self.options["file"])


class JournalSinkConnector(SinkConnector):
    config_def = ConfigDef(ConfigKey("file", Type.STRING, doc="The file to write to."))

    @classmethod
    def data_source(cls, options):
        return JournalData(options)


class Countdown(DataSourceReader):
    def __init__(self, count):
        self.count = count

    def partitions(self):
        return [InputPartition(n) for n in range(2)]

    def read(self, partition):
        for n in range(self.count, 0, -1):
            yield n, partition.value, datetime(2024, 1, 2, 3, 4, 5)  # noqa: DTZ001 - Spark's TIMESTAMP_NTZ


class CountdownData(DataSource):
    """A batch data source as PySpark's users write them: no connector class at all."""

    @classmethod
    def name(cls):
        return "countdown"

    def schema(self):
        return "n int, part int, at timestamp_ntz"

    def reader(self, schema):
        return Countdown(int(self.options["count"]))

    def writer(self, schema, overwrite):
        return JournalWriter(self.options["file"])
