"""The ConnectorContext of a connector in a process of its own, and what answers it on the worker."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final

from typing_extensions import override

from spark_tasks.metrics.plugins import PluginMetrics
from spark_tasks.plugin_processes.channel import ChannelToWorker, unknown_message
from spark_tasks.plugins.api import ConnectorContext
from spark_tasks.spark.executor import Outcome, failed_outcome, value_of
from spark_tasks.task import SourceOffset, SourcePartition

_METRICS_S: Final = 1.0  # how often a connector's metrics are sent


def answer_with(context: ConnectorContext, kind: str, value: Any) -> Outcome | None:
    """Passes a message of a connector's process to its context. See Answer."""
    match kind:
        case "offsets":
            return _offsets_of(context)
        case "reconfigure":
            context.request_task_reconfiguration()
        case "failed":
            context.raise_error(_error_in(value))
        case _:
            return unknown_message(kind, value)
    return None


def _offsets_of(context: ConnectorContext) -> Outcome:
    try:
        return Outcome(value=list(context.offsets()))
    except Exception as error:  # noqa: BLE001 - the connector gets it
        return failed_outcome(error)


def _error_in(outcome: Outcome) -> Exception:
    """The error that the connector reports, with its trace."""
    try:
        value_of(outcome)
    except Exception as error:  # noqa: BLE001 - a plugin's
        return error
    raise TypeError("an outcome without an error")


class RemoteContext(ConnectorContext):
    """The context in the connector's process, whose metrics are `metrics`. Thread-safe."""

    def __init__(self, channel: ChannelToWorker, metrics: PluginMetrics) -> None:
        self._channel = channel
        self._metrics = metrics
        self._lock = threading.Lock()
        self._sends_metrics = False

    @property
    @override
    def metrics(self) -> PluginMetrics:
        with self._lock:
            first, self._sends_metrics = not self._sends_metrics, True
        if first:
            threading.Thread(target=self._send_metrics, name="connector-metrics", daemon=True).start()
        return self._metrics

    @override
    def request_task_reconfiguration(self) -> None:
        self._channel.send("reconfigure", None)

    @override
    def raise_error(self, error: Exception) -> None:
        self._channel.send("failed", failed_outcome(error))

    @override
    def offsets(self) -> Sequence[tuple[SourcePartition, SourceOffset]]:
        offsets: Sequence[tuple[SourcePartition, SourceOffset]] = self._channel.ask("offsets")
        return offsets

    def _send_metrics(self) -> None:
        never = threading.Event()
        with suppress(OSError):  # the worker has ended, or closed the channel
            while not never.wait(_METRICS_S):
                if (figures := self._metrics.take()) is not None:
                    self._channel.send("metrics", figures)
