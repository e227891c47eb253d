"""Adjusts the number of a sink's tasks to its lag (tasks.auto): measures the lag periodically, and requests new tasks.

Only the worker that runs the connector's instance does this; a new one starts from the current number of tasks.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from actors.messages.correlation_ids import Epoch
from actors.messages.events import Remark, TaskReconfigurationRequested
from spark_tasks.config import scaling
from spark_tasks.config.scaling import Bounds, Scale
from storage.ids import ConnectorName

_logger = logging.getLogger(__name__)

MEASUREMENTS_PER_PERIOD = 4
SOURCE = "scaler"
Measure = Callable[[ConnectorName, Mapping[str, str]], tuple[int, int]]
"""A sink's lag in records, and the number of its topics' partitions. May take seconds; raises errors of Kafka."""
Tell = Callable[[TaskReconfigurationRequested | Remark], None]


class Watched:
    """One connector instance whose lag is measured."""

    def __init__(self, connector: ConnectorName, epoch: Epoch, config: Mapping[str, str], bounds: Bounds,
                 tasks: int) -> None:
        """`tasks`: the current number of tasks."""
        self.connector = connector
        self.epoch = epoch
        self.config = config
        self.bounds = bounds
        self.scale = Scale(bounds.clamped(tasks))
        self.lag: int | None = None
        self.ended = False
        self.due_ms = 0
        self.measuring = False

    @property
    def tasks(self) -> int:
        """The wanted number of tasks. Any thread."""
        return self.scale.tasks


@dataclass(frozen=True, slots=True)
class Scaled:
    """For metrics: `lag` is None before the first measurement, and if the last one failed."""

    tasks: int
    lag: int | None


class Scaler:
    """Measures the lag of sinks with tasks.auto. `check` has to be called periodically, and returns at once."""

    def __init__(self, tell: Tell, measure: Measure, task_count: Callable[[ConnectorName], int],
                 clock: Callable[[], float] = time.monotonic) -> None:
        self._tell = tell
        self._measure = measure
        self._task_count = task_count
        self._clock = clock
        self._lock = threading.Lock()
        self._watched: list[Watched] = []

    def watch(self, connector: ConnectorName, epoch: Epoch, config: Mapping[str, str]) -> Watched | None:
        """Watches a sink until it has `ended`; None if its number of tasks is fixed, or if a later instance is watched.
        A former instance has ended, even if it was abandoned because its plugin hangs. Raises ConfigError.
        """
        bounds = Bounds.of(config)
        watched = None if bounds is None else Watched(connector, epoch, config, bounds, self._task_count(connector))
        with self._lock:
            others = [other for other in self._watched if other.connector == connector and not other.ended]
            if any(other.epoch > epoch for other in others):
                return None  # the plugin of this instance hung, and it was abandoned
            for former in others:
                former.ended = True
            if watched is not None:
                self._watched.append(watched)
        return watched

    def abandon(self, epoch: Epoch) -> None:
        """Ends the watch of an instance whose plugin hangs. Any thread."""
        with self._lock:
            for watched in self._watched:
                watched.ended = watched.ended or watched.epoch == epoch

    def check(self) -> None:
        """Measures the sinks that are due, each in its own thread, so that an unreachable Kafka delays no other."""
        now = int(self._clock() * 1000)
        for watched in self._living():
            if now >= watched.due_ms and not watched.measuring:
                watched.due_ms = now + watched.bounds.period_ms // MEASUREMENTS_PER_PERIOD
                watched.measuring = True
                name = f"scaler-{watched.connector}"
                try:
                    threading.Thread(target=self._examine, args=(watched,), name=name, daemon=True).start()
                except RuntimeError:
                    watched.measuring = False
                    _logger.exception("No thread could be started to measure the lag",
                                      extra={"heeler_about": watched.connector})

    def figures(self) -> Mapping[ConnectorName, Scaled]:
        """Tasks and lag of each connector."""
        return {w.connector: Scaled(w.tasks, w.lag) for w in self._living()}

    def _living(self) -> list[Watched]:
        with self._lock:
            self._watched = [watched for watched in self._watched if not watched.ended]
            return list(self._watched)

    def _examine(self, watched: Watched) -> None:
        try:
            lag, partitions = self._measure(watched.connector, watched.config)
        except Exception as error:  # noqa: BLE001 - whatever a client raises, the measurement is repeated later
            _logger.warning("Could not measure the lag, so the number of tasks stays unchanged: %s", error,
                            extra={"heeler_about": watched.connector})
            watched.lag = None
            watched.scale = scaling.unknown(watched.scale)
        else:
            self._decide(watched, lag, partitions)
        finally:
            watched.measuring = False

    def _decide(self, watched: Watched, lag: int, partitions: int) -> None:
        before = watched.tasks
        watched.lag = lag
        watched.scale = scaling.advance(watched.scale, watched.bounds, lag, partitions, int(self._clock() * 1000))
        if watched.tasks != before and not watched.ended:
            text = (f"Changing from {before} to {watched.tasks} tasks: the lag is {lag} records in {partitions} "
                    "partitions (tasks.auto)")
            _logger.info("%s", text, extra={"heeler_about": watched.connector})
            self._tell(Remark(watched.connector, text, SOURCE))
            self._tell(TaskReconfigurationRequested(watched.connector, watched.epoch))
