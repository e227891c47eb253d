"""A third party's connector in an executor process of its own, while it has something to do there (ADR 0059)."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final

from typing_extensions import override

from spark_tasks.errors import RetriableError
from spark_tasks.metrics.plugins import PluginMetrics
from spark_tasks.plugin_processes.callbacks import RemoteContext, answer_with
from spark_tasks.plugin_processes.channel import ChannelToWorker
from spark_tasks.plugin_processes.plugin_calls import owner_of
from spark_tasks.plugin_processes.plugin_object import Maker, PluginObject
from spark_tasks.plugins.api import Connector, ConnectorContext, Options
from spark_tasks.plugins.connector_instance import ConnectorInstance, third_party_methods
from spark_tasks.task import Engine, PluginCall

_logger = logging.getLogger(__name__)

AGAIN_S: Final = 60.0  # a connector whose process ends twice within this time has failed


class ConnectorProcess(ConnectorInstance):
    """A connector that is more than its `task_configs` keeps its process until it stops, since it may monitor an
    external system; others have one for each call. If a process ends, another one takes its place.
    """

    def __init__(self, engine: Engine, name: str, connector: type[Connector], config: Mapping[str, str],
                 context: ConnectorContext, lost: Callable[[], None]) -> None:
        """`lost` is called when the process of a running connector has ended; `recover` has to be called then."""
        self._name = name
        self._class = connector
        self._config = dict(config)
        self._context = context
        self._lost = lost
        self._stays = bool(third_party_methods(connector) - {"task_configs"})
        there = partial(_guest, connector, self._config)
        self._object = PluginObject(
            owner_of(engine, name, context.metrics),
            Maker(self._make_here, there, partial(answer_with, context), self._ended),
            ["task_configs"] if self._stays else ())
        self._running = False
        self._started = 0  # the generation of the object that was started
        self._recovered_at = -AGAIN_S

    @property
    @override
    def elsewhere(self) -> bool:
        return self._object.is_there

    def _make_here(self) -> _Guest:
        return _Guest(self._class(dict(self._config), self._context))

    def _ended(self) -> None:
        if self._running and self._stays:
            self._lost()

    @property
    @override
    def task_class(self) -> str | None:
        return None

    @override
    def start(self) -> None:
        self._running = True
        if not self._stays:
            return
        self._begin()

    def _begin(self) -> None:
        try:
            self._object.call("exists")  # if its process ends in `start`, that is not tried again
            self._object.call("start")
        except BaseException:
            self._running = False
            self.close()
            raise
        self._started = self._object.generation

    @override
    def task_configs(self, max_tasks: int) -> Sequence[Options]:
        if self._stays:
            self._resume()
        try:
            self._object.call("exists")  # as in _begin
            configs: Sequence[Options] = self._object.call("task_configs", max_tasks)
        finally:
            if not self._stays and not self._object.is_here:
                self.close()
        return configs

    def _resume(self) -> None:
        """Starts it again if its process has ended. Raises RetriableError if that happened just before."""
        if not self._running or (self._object.exists and self._object.generation == self._started):
            return
        if not self._object.is_here:
            now = time.monotonic()
            if now - self._recovered_at < AGAIN_S:
                raise RetriableError(f"the process of connector {self._name} has ended twice within {AGAIN_S:.0f} s")
            self._recovered_at = now
            _logger.warning("The connector's process has ended; the connector starts again in another one",
                            extra={"heeler_about": self._name})
        self._begin()

    @override
    def recover(self) -> None:
        self._resume()

    @override
    def stop(self) -> None:
        self._running = False
        try:
            if self._stays:
                self._object.call_last("stop")
        finally:
            self.close()

    @override
    def abandon(self) -> None:
        self._running = False
        if self._object.is_here:
            self._object.call("abandon")
        else:
            self._object.kill()

    @override
    def close(self) -> None:
        self._object.end()

    @override
    def plugin_calls(self) -> Sequence[PluginCall]:
        return self._object.calls()


class _Guest:
    """The connector where it runs."""

    def __init__(self, connector: Connector) -> None:
        self._connector = connector
        self.start, self.stop, self.task_configs = connector.start, connector.stop, connector.task_configs
        self.abandon = connector.abandon

    def exists(self) -> None:
        """Nothing."""


def _guest(connector: type[Connector], config: Mapping[str, str], channel: ChannelToWorker,
           metrics: PluginMetrics) -> _Guest:
    return _Guest(connector(dict(config), RemoteContext(channel, metrics)))
