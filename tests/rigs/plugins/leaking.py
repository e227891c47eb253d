"""Connectors that reveal their password; `at` says in which call."""

import logging
import sys

from acting import Acting

from heeler import ConfigDef, ConfigKey, SinkConnector, SourceConnector, Type

KEYS = ConfigDef(
    ConfigKey("at", Type.STRING, default="", doc="validate, start, tasks, plan, read or write."),
    ConfigKey("password", Type.STRING, doc="What is said."),
    ConfigKey("topic", Type.STRING, default="", doc="The topic to write to."),
)


def leak(options, place):
    if options.get("at") == place:
        logging.getLogger("leaking").warning("%s with %r", place, {"login": options["password"]})
        sys.stderr.write(f"{place} with {options['password']}\n")
        raise RuntimeError(f"{place}: cannot log in with {options['password']}")


class Leaking(Acting):
    act = staticmethod(leak)
    most = 20


class LeakingSourceConnector(SourceConnector):
    config_def = KEYS

    @classmethod
    def validate(cls, config):
        leak(config, "validate")
        said = f"{config['password']} is too short" if config.get("at") == "message" else None
        return {"password": [said]} if said else {}

    def start(self):
        leak(self.config, "start")

    def task_configs(self, max_tasks):
        leak(self.config, "tasks")
        return [{**self.config, "url": f"db://me:{self.config['password']}@host"}]

    @classmethod
    def data_source(cls, options):
        return Leaking(options)


class LeakingSinkConnector(SinkConnector):
    config_def = KEYS

    @classmethod
    def data_source(cls, options):
        return Leaking(options)
