"""As the VerifiableSourceConnector of Kafka's own system tests: each task counts, `throughput` numbers a second."""

import time

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition

from heeler import ConfigDef, SourceConnector


class VerifiableSource(SourceConnector):
    config_def = ConfigDef()

    def task_configs(self, max_tasks):
        return [{**self.config, "id": str(n)} for n in range(max_tasks)]

    @classmethod
    def data_source(cls, options):
        return VerifiableData(options)


class VerifiableData(DataSource):
    def schema(self):
        return "topic string, key string, value string"

    def streamReader(self, schema):
        return Counter(self.options)


class Counter(DataSourceStreamReader):
    def __init__(self, options):
        self.topic, self.id, self.throughput = options["topic"], options["id"], int(options["throughput"])
        self.begin = None

    def initialOffset(self):
        return {"seqno": -1}

    def latestOffset(self, start, limit):
        if self.begin is None:
            self.begin = start["seqno"] - time.monotonic() * self.throughput
        return {"seqno": max(start["seqno"], int(self.begin + time.monotonic() * self.throughput))}

    def partitions(self, start, end):
        return [InputPartition((start["seqno"] + 1, end["seqno"] + 1))] if start != end else []

    def read(self, partition):
        return ((self.topic, self.id, str(n)) for n in range(*partition.value))

    def to_source_offsets(self, offset):
        return [({"id": int(self.id)}, offset)]

    def from_source_offsets(self, offsets):
        return next((dict(o) for p, o in offsets if p == {"id": int(self.id)}), self.initialOffset())
