"""A connector whose behavior tests determine; its newest instance is found by the connector's name."""

from __future__ import annotations

import threading
from typing import ClassVar

from spark_tasks.config.definition import ConfigDef, ConfigKey, Type
from spark_tasks.plugins import Kind
from spark_tasks.plugins.api import SinkConnector, SourceConnector
from spark_tasks.plugins.discovery import Found


class Scripted:
    """`hooks`: by connector name, a function that is called with the name of each method before the method does
    anything.
    """

    hooks: ClassVar = {}
    instances: ClassVar = {}
    calls: ClassVar = {}

    version = "7.1"
    config_def = ConfigDef(ConfigKey("wish", Type.STRING, default="none"))

    def __init__(self, config, context):
        super().__init__(config, context)
        self.name = config["name"]
        self.instances[self.name] = self
        self.did("init")

    def did(self, what):
        self.calls.setdefault(self.name, []).append((what, threading.current_thread().name))
        self.hooks.get(self.name, lambda _: None)(what)

    def start(self):
        self.did("start")

    def stop(self):
        self.did("stop")

    def task_configs(self, max_tasks):  # noqa: ARG002 - a plugin may well ignore it
        self.did("task_configs")
        return [{**self.config, "task": str(n)} for n in range(int(self.config.get("tasks", "1")))]

    @classmethod
    def validate(cls, config):
        cls.hooks.get(config.get("name"), lambda _: None)("validate")
        return {"wish": ["granted never"]} if config.get("wish") == "bad" else {}

    @classmethod
    def data_source(cls, options):
        raise NotImplementedError


class ScriptedSourceConnector(Scripted, SourceConnector):
    pass


class ScriptedSinkConnector(Scripted, SinkConnector):
    pass


FOUND = [
    Found(f"com.acme.{cls.__name__}", Kind.CONNECTOR, f"{__name__}:{cls.__name__}", "classpath")
    for cls in (ScriptedSourceConnector, ScriptedSinkConnector)
]
