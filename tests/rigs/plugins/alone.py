"""A source without records that reports every start of its connector and tasks, and every start while another instance
is still running on any worker: a running instance locks its file.
"""

import fcntl
from pathlib import Path

from pyspark.sql.datasource import DataSource, DataSourceStreamReader

from heeler import ConfigDef, ConfigKey, SourceConnector, Type


class Running:
    """Ends with `close`, or with the process."""

    def __init__(self, folder, part):
        self.file = Path(folder, part).open("a")  # noqa: SIM115 - for as long as it runs
        try:
            fcntl.flock(self.file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self.file.write("twice ")
        self.file.write("started\n")
        self.file.flush()

    def close(self):
        self.file.close()


class Nothing(DataSourceStreamReader):
    def __init__(self, options):
        self.running = Running(options["folder"], options["part"])

    def __getstate__(self):
        return {}  # what executors get of it runs nothing

    def initialOffset(self):
        return {"n": 0}

    def latestOffset(self, start, limit):
        return start

    def partitions(self, start, end):
        return []

    def read(self, partition):
        return iter(())

    def stop(self):
        self.running.close()


class Alone(DataSource):
    def schema(self):
        return "value string"

    def streamReader(self, schema):
        return Nothing(self.options)


class AloneSourceConnector(SourceConnector):
    config_def = ConfigDef(ConfigKey("topic", Type.STRING, doc="The topic that gets nothing."),
                           ConfigKey("folder", Type.STRING, doc="The folder for the files."))

    def start(self):
        self.running = Running(self.config["folder"], self.config["name"])

    def stop(self):
        self.running.close()

    def task_configs(self, max_tasks):
        return [{**self.config, "part": f"{self.config['name']}-{n}"} for n in range(max_tasks)]

    @classmethod
    def data_source(cls, options):
        return Alone(options)
