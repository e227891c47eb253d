"""Sources that keep others waiting: one of ten numbers per second whose reader waits or computes as long as asked, or
loops forever, in its reads or its third plan; one that finds nothing twice, then holds the GIL; and one whose connector
hangs.
"""

import os
import re
import time
from pathlib import Path

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition, SimpleDataSourceStreamReader

from heeler import ConfigDef, ConfigKey, SourceConnector, Type


class Reader(DataSourceStreamReader):
    def __init__(self, options):
        self.wait = int(options.get("seconds", 0))
        self.compute = float(options.get("compute", 0))
        self.sign = options.get("sign")
        self.plan = options.get("plan")
        self.plans = 0

    def initialOffset(self):
        return {"n": int(time.time() * 10)}

    def latestOffset(self, start, limit):
        self.plans += 1
        if self.plan and self.plans > 2:
            self.note(os.getpid())
            while self.plan == "loop":
                pass
            re.match("(a+)+$", "a" * 60 + "b")  # holds the GIL
        return {"n": int(time.time() * 10)}

    def partitions(self, start, end):
        return [InputPartition((start["n"], end["n"]))]

    def read(self, partition):
        if not self.plan:
            self.note(os.getpid())
        while self.wait < 0:
            pass
        time.sleep(self.wait)
        end = time.monotonic() + self.compute
        while time.monotonic() < end:
            pass
        self.note("end")
        for n in range(*partition.value):
            yield (str(n),)

    def note(self, text):
        if self.sign:
            with Path(self.sign).open("a") as sign:
                sign.write(f"{text}\n")


class Ticks(DataSource):
    def schema(self):
        return "value string"

    def streamReader(self, schema):
        return Reader(self.options)


class TicksSourceConnector(SourceConnector):
    yields = "rows"
    config_def = ConfigDef(
        ConfigKey("topic", Type.STRING, doc="The topic to write to."),
        ConfigKey("seconds", Type.STRING, default="0", doc="How long each read waits; -1: it loops forever."),
        ConfigKey("compute", Type.STRING, default="0", doc="How many seconds each read uses the CPU."),
        ConfigKey("plan", Type.STRING, default="", doc="What the third plan does: loop, or hold the GIL."),
        ConfigKey("sign", Type.STRING, default="", doc="A file for the process of each read that begins, and its end."),
    )

    @classmethod
    def data_source(cls, options):
        return Ticks(options)


class Holder(SimpleDataSourceStreamReader):
    def __init__(self, options):
        self.sign = Path(options["sign"])

    def initialOffset(self):
        return {}

    def read(self, start):
        with self.sign.open("a") as sign:
            sign.write(f"{os.getpid()}\n")
        if len(self.sign.read_text().split()) > 2:
            re.match("(a+)+$", "a" * 60 + "b")
        return iter(()), start


class Holding(DataSource):
    def schema(self):
        return "value string"

    def simpleStreamReader(self, schema):
        return Holder(self.options)


class HoldingSourceConnector(SourceConnector):
    yields = "rows"
    config_def = ConfigDef(
        ConfigKey("topic", Type.STRING, doc="The topic to write to."),
        ConfigKey("sign", Type.STRING, doc="A file for the process of each read that begins."),
    )

    @classmethod
    def data_source(cls, options):
        return Holding(options)


class StuckSourceConnector(TicksSourceConnector):
    """`at`: the method that hangs; `hang`: loop, or hold the GIL; if it is empty, the method only says where it is."""

    config_def = TicksSourceConnector.config_def.plus(
        ConfigKey("at", Type.STRING, default=""),
        ConfigKey("hang", Type.STRING, default=""),
        ConfigKey("calls", Type.STRING, default="", doc="A file for the process of the call."),
    )

    def start(self):
        hang(self.config, "start")

    def task_configs(self, max_tasks):
        hang(self.config, "task_configs")
        return [self.config]

    def stop(self):
        hang(self.config, "stop")

    @classmethod
    def validate(cls, config):
        hang(config, "validate")
        return {}

    @classmethod
    def alter_offsets(cls, config, offsets):  # noqa: ARG003
        hang(config, "alter_offsets")
        return True


def hang(config, method):
    if config["at"] == method:
        with Path(config["calls"]).open("a") as calls:
            calls.write(f"{os.getpid()}\n")
        if not config["hang"]:
            return
        while config["hang"] == "loop":
            pass
        re.match("(a+)+$", "a" * 60 + "b")  # holds the GIL
