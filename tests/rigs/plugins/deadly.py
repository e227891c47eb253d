"""A source and a sink that hang, end or break the process that runs them: `how` says which, `sleep` for `seconds`."""

import ctypes
import os
import time

from pyspark.sql.datasource import (
    DataSource,
    DataSourceStreamReader,
    DataSourceWriter,
    InputPartition,
    WriterCommitMessage,
)

from heeler import ConfigDef, ConfigKey, SinkConnector, SourceConnector, Type

KEYS = ConfigDef(
    ConfigKey("how", Type.STRING, doc="sleep, hold (the interpreter), exit, crash, or raise."),
    ConfigKey("seconds", Type.INT, default=3600, doc="How long it sleeps."),
    ConfigKey("topic", Type.STRING, default="", doc="The topic to write to."),
)


def harm(options):
    how = options["how"]
    if how == "sleep":
        time.sleep(int(options.get("seconds", 3600)))
    elif how == "hold":
        ctypes.PyDLL(None).sleep(3600)
    elif how == "exit":
        os._exit(3)
    elif how == "crash":
        ctypes.string_at(0)
    else:
        raise RuntimeError("as it is asked to")


class Reader(DataSourceStreamReader):
    def __init__(self, options):
        self.options = options

    def initialOffset(self):
        return {"n": 0}

    def latestOffset(self, start, limit):
        return {"n": start["n"] + 1}

    def partitions(self, start, end):
        return [InputPartition(start["n"])]

    def read(self, partition):
        harm(self.options)
        yield (f"record {partition.value}",)


class Writer(DataSourceWriter):
    def __init__(self, options):
        self.options = options

    def write(self, iterator):
        harm(self.options)
        return WriterCommitMessage()


class Deadly(DataSource):
    def schema(self):
        return "value string"

    def streamReader(self, schema):
        return Reader(dict(self.options))

    def writer(self, schema, overwrite):
        return Writer(dict(self.options))


class DeadlySourceConnector(SourceConnector):
    config_def = KEYS

    def task_configs(self, max_tasks):
        return [self.config] * max_tasks

    @classmethod
    def data_source(cls, options):
        return Deadly(options)


class DeadlySinkConnector(SinkConnector):
    config_def = KEYS

    @classmethod
    def data_source(cls, options):
        return Deadly(options)
