"""A source and a sink that hang, end or break the process that runs them: `how` says which, `sleep` for `seconds`;
`where`: in the connector or in its tasks.
"""

import ctypes
import os
import time

from acting import Acting

from heeler import ConfigDef, ConfigKey, SinkConnector, SourceConnector, Type

KEYS = ConfigDef(
    ConfigKey("how", Type.STRING, doc="sleep, hold (the interpreter), exit, crash, or raise."),
    ConfigKey("seconds", Type.INT, default=3600, doc="How long it sleeps."),
    ConfigKey("where", Type.STRING, default="tasks", doc="tasks or connector."),
    ConfigKey("topic", Type.STRING, default="", doc="The topic to write to."),
)


def harm(options, place):
    how = options["how"]
    if place == "plan" or (place == "start") is not (options.get("where") == "connector"):
        return
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


class Deadly(Acting):
    act = staticmethod(harm)


class Start:
    def start(self):
        harm(self.config, "start")


class DeadlySourceConnector(Start, SourceConnector):
    config_def = KEYS

    def task_configs(self, max_tasks):
        return [self.config] * max_tasks

    @classmethod
    def data_source(cls, options):
        return Deadly(options)


class DeadlySinkConnector(Start, SinkConnector):
    config_def = KEYS

    @classmethod
    def data_source(cls, options):
        return Deadly(options)
