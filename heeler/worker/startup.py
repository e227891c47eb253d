"""Checks before a worker starts, and how its main thread waits for Kafka and for the end."""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

from actors.messages.commands import HerderAlive
from heeler.java_host.runtime import JavaRuntime
from heeler.java_host.settings import JavaHostSettings
from heeler.worker.config import WorkerConfig
from spark_tasks.errors import ConfigError, ConnectError
from spark_tasks.futures import ended
from spark_tasks.plugins import Kind, Plugins, PluginVersionError, data_source_discovery
from storage.daemon_pool import DaemonPool

T = TypeVar("T")
_POLL_S = 0.05
STILL_S = 30.0  # how often a start says what it still waits for
_GARBAGE_AFTER = 20_000  # container objects that have been created and not freed; Python's default is 700


class StoppedError(ConnectError):
    """The worker was asked to stop before it had started."""


def checked_plugins(config: WorkerConfig, java: JavaRuntime | None = None) -> Plugins:
    """The worker's plugins, including the Java ones. Raises ConfigError, with Kafka Connect's message, if a converter
    of the worker does not exist.
    """
    in_background(data_source_discovery.installed)  # plugins that are installed after the worker's start do not count
    plugins = Plugins(config["plugin.path"], others=java.found if java else None,
                      complaints=java.complaints if java else (), passed_over=java.passed_over if java else None)
    for key, kind in (("key.converter", Kind.CONVERTER), ("value.converter", Kind.CONVERTER),
                      ("header.converter", Kind.HEADER_CONVERTER)):
        name = str(config[key])
        if version := config[f"{key}.plugin.version"]:
            _require(plugins, kind, name, str(version))
        if not plugins.exists(kind, name):
            raise ConfigError(f"Invalid value {name} for configuration {key}: Class {name} could not be found. "
                              f"Available: {', '.join(plugins.names(kind))}\n{plugins.advice(kind, name)}")
    return plugins


def _require(plugins: Plugins, kind: Kind, name: str, version: str) -> None:
    try:
        plugins.get(kind, name, version)
    except PluginVersionError as error:
        raise ConfigError(str(error)) from error


def java_runtime(config: WorkerConfig) -> JavaRuntime:
    """The worker's Java plugins. Starts a JVM if there are jars that have not been examined before."""
    settings = JavaHostSettings.of(config.values, config.log_levels)
    return config.java or JavaRuntime(settings, config["plugin.path"] or ())


def tune_garbage_collection() -> None:
    """Excludes imported modules from garbage collection, and collects less often. With hundreds of tasks, whose
    messages and requests are short-lived objects, garbage collection took a third of the busiest thread's time.
    """
    gc.freeze()
    gc.set_threshold(_GARBAGE_AFTER, 10, 10)


def wait_for(future: Future[T], stop: threading.Event, still: Callable[[], object] = lambda: None) -> T:
    """The future's result. Raises StoppedError as soon as `stop` is set. Calls `still` each time that it has waited for
    another STILL_S seconds.
    """
    left = STILL_S
    while not ended(future, min(_POLL_S, left)):
        if stop.is_set():
            raise StoppedError("The worker was stopped before it had finished starting")
        left -= _POLL_S
        if left <= 0:
            still()
            left = STILL_S
    return future.result()


class HerderWatch:
    """Counts the HerderAlive messages, and reports when there is none for too long."""

    def __init__(self, tell: Callable[[str], None], timeout_s: float) -> None:
        self._tell = tell
        self._timeout_s = timeout_s
        self._count = 0

    def counting(self, tell: Callable[[Any], None]) -> Callable[[Any], None]:
        """Returns `tell`, wrapped so that HerderAlive messages are counted."""
        def counted(message: Any) -> None:
            self._count += isinstance(message, HerderAlive)
            tell(message)

        return counted

    def wait_for_stop(self, stop: threading.Event, beat: Callable[[], None] = lambda: None) -> None:
        """Returns when `stop` is set; reports if the herder is silent for too long. Calls `beat` often.

        It polls, in place of the event's `wait`, so that signals are handled at once: the system may deliver a signal
        to any thread, and usually does so after the process was suspended. Python runs the handler in the main thread,
        which such a signal does not wake.
        """
        before, silent = self._count, 0.0  # counted in polls, not by the clock, because the process may be suspended
        while not stop.is_set():
            time.sleep(_POLL_S)
            beat()
            silent = silent + _POLL_S if self._count == before else 0.0
            before = self._count
            if silent > self._timeout_s:
                self._tell(f"The herder has not responded for {self._timeout_s:.0f} s")
                silent = 0.0


def in_background(function: Callable[[], T]) -> Future[T]:
    """Runs a function in a thread that does not keep the process from ending."""
    return DaemonPool(1, "starting").submit(function)
