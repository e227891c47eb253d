"""A connector that says in which process its methods are called, and monitors a file; it can be told to misbehave."""

from __future__ import annotations

import logging
import os
import re
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from typing_extensions import override

from spark_tasks.config.definition import ConfigDef
from spark_tasks.errors import ConfigError, DataError, RetriableError
from spark_tasks.plugins.api import Options, SourceConnector

_logger = logging.getLogger(__name__)


def say(config: Options, what: str) -> None:
    """Adds a line to the file `calls` in the connector's folder, and to the log."""
    _logger.debug("debug: %s", what)
    _logger.info("info: %s", what)
    with Path(config["folder"], "calls").open("a") as calls:
        calls.write(f"{what} {os.getpid()}\n")


def misbehave(config: Options, method: str) -> None:
    """Does what the configuration has at the method's name."""
    match config.get(method):
        case "hold":
            re.match("(a+)+$", "a" * 60 + "b")  # for ever, with the GIL
        case "sleep":
            time.sleep(3600)
        case "exit":
            os._exit(7)
        case "fail":
            raise DataError(f"{method} failed")
        case "retry":
            raise RetriableError(f"{method} could be tried again")
        case "session":
            SparkSession.builder.getOrCreate()


class StatelessConnector(SourceConnector):
    """Only generates the configurations of its tasks."""

    config_def = ConfigDef()

    @override
    def task_configs(self, max_tasks: int) -> Sequence[Options]:
        say(self.config, "task_configs")
        misbehave(self.config, "task_configs")
        return [{"n": str(n)} for n in range(max_tasks)]

    @classmethod
    @override
    def validate(cls, config: Options) -> Mapping[str, Sequence[str]]:
        say(config, "validate")
        misbehave(config, "validate")
        return {"folder": ["too far away"]}

    @classmethod
    @override
    def data_source(cls, options: Options) -> Any:
        raise NotImplementedError


class MonitoringConnector(StatelessConnector):
    """Does what is written to the file `order` in its folder: reconfigure, fail, exit or count."""

    @override
    def start(self) -> None:
        say(self.config, "start")
        misbehave(self.config, "start")
        self.starts = getattr(self, "starts", 0) + 1
        self.stopping = threading.Event()
        threading.Thread(target=self.monitor, daemon=True).start()

    @override
    def stop(self) -> None:
        self.stopping.set()
        say(self.config, "stop")
        misbehave(self.config, "stop")

    @override
    def task_configs(self, max_tasks: int) -> Sequence[Options]:
        super().task_configs(max_tasks)
        return [{"starts": str(self.starts), "offsets": str(list(self.context.offsets()))}]

    def monitor(self) -> None:
        """Looks for orders."""
        order = Path(self.config["folder"], "order")
        while not self.stopping.wait(0.02):
            if not order.exists():
                continue
            what = order.read_text()
            order.unlink()
            match what:
                case "reconfigure":
                    self.context.request_task_reconfiguration()
                case "fail":
                    self.context.raise_error(ConfigError("the table is gone"))
                case "exit":
                    os._exit(7)
                case "count":
                    self.context.metrics.counter("orders").inc()
