"""Connectors that hang or raise wherever one can: `at` says where, until the file `release` exists. While one hangs
there is a file of the name with `.hangs` after it.
"""

import logging
import time
from pathlib import Path

from pyspark.sql.datasource import (
    DataSource,
    DataSourceStreamReader,
    DataSourceWriter,
    InputPartition,
    WriterCommitMessage,
)

from heeler import ConfigDef, ConfigKey, PermanentError, SinkConnector, SourceConnector, Type, transform
from spark_tasks.pipeline.converters.string import StringConverter

KEYS = ConfigDef(
    ConfigKey("at", Type.STRING, default="", doc="validate, start, tasks, stop, configure, task-start, plan, read, "
              "task-stop, write or transform."),
    ConfigKey("release", Type.STRING, default="", doc="The file that ends the misbehavior."),
    ConfigKey("says", Type.STRING, default="", doc="The end of the error's message."),
    ConfigKey("topic", Type.STRING, default="", doc="The topic to write to."),
)


def bad_here(options, place):
    return options.get("at") == place and not Path(options.get("release", "/")).exists()


def hang(options, place):
    sign = Path(options.get("release", "/") + ".hangs")
    while bad_here(options, place):
        sign.touch()
        time.sleep(0.02)
    sign.unlink(missing_ok=True)


def fail(options, place):
    if bad_here(options, place):
        logging.getLogger(__name__).warning("misbehaving%s", options.get("says", ""))
        kind = PermanentError if options.get("says") == " for good" else RuntimeError
        raise kind(f"misbehaving at {place}{options.get('says', '')}")


class Reader(DataSourceStreamReader):
    def __init__(self, options, misbehave):
        self.options = options
        self.misbehave = misbehave

    def initialOffset(self):
        return {"n": 0}

    def latestOffset(self, start, limit):
        self.misbehave(self.options, "plan")
        return {"n": min(start["n"] + 1, 20)}

    def partitions(self, start, end):
        return [InputPartition(n) for n in range(start["n"], end["n"])]

    def read(self, partition):
        self.misbehave(self.options, "read")
        yield (f"record {partition.value}",)

    def stop(self):
        self.misbehave(self.options, "task-stop")


class Writer(DataSourceWriter):
    def __init__(self, options, misbehave):
        self.options = options
        self.misbehave = misbehave

    def write(self, iterator):
        self.misbehave(self.options, "write")
        return WriterCommitMessage()


class Misbehaving(DataSource):
    misbehave = staticmethod(hang)

    def schema(self):
        return "value string"

    def streamReader(self, schema):
        self.misbehave(self.options, "task-start")
        return Reader(dict(self.options), self.misbehave)

    def writer(self, schema, overwrite):
        return Writer(dict(self.options), self.misbehave)


class Failing(Misbehaving):
    misbehave = staticmethod(fail)


class HangingSourceConnector(SourceConnector):
    config_def = KEYS
    data = Misbehaving

    @classmethod
    def validate(cls, config):
        cls.data.misbehave(config, "validate")
        return {}

    def start(self):
        self.data.misbehave(self.config, "start")

    def stop(self):
        self.data.misbehave(self.config, "stop")

    def task_configs(self, max_tasks):
        self.data.misbehave(self.config, "tasks")
        return [self.config]

    @classmethod
    def data_source(cls, options):
        return cls.data(options)


class FailingSourceConnector(HangingSourceConnector):
    data = Failing


class HangingSinkConnector(SinkConnector):
    config_def = KEYS

    @classmethod
    def data_source(cls, options):
        return Misbehaving(options)


@transform(config=KEYS)
def hold(record, options):
    """Hangs."""
    hang(options, "transform")
    return record


class HoldingConverter(StringConverter):
    """Hangs as it is configured."""

    config_def = StringConverter.config_def.plus(
        ConfigKey("at", Type.STRING, default=""), ConfigKey("release", Type.STRING, default=""))

    def configure(self, configs, *, is_key=False):
        hang(configs, "configure")
        super().configure(configs, is_key=is_key)
