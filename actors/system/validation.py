"""Validation of connector configs outside the herder, each in a short-lived thread with a deadline.

It runs plugin code, which may hang: after the deadline the request is answered, and the thread is left behind, as in
Kafka Connect; other requests are not delayed.
"""

from __future__ import annotations

import itertools
import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from actors.errors import BadRequestError, NotFoundError, TimedOutError
from actors.instances.task import Alarms
from actors.messages.requests import RequestStage
from spark_tasks.config.definition import ConfigError
from spark_tasks.errors import ConnectError, plugin_code
from spark_tasks.plugins import PluginNotFoundError, Plugins
from spark_tasks.plugins.third_party import Calls, CallsHere, MakeCalls
from spark_tasks.validation import (
    ConfigInfos,
    NoConfigDefError,
    NoConnectorClassError,
    Resolve,
    ValidationSettings,
    plugin_config,
    validate_connector,
)
from storage.ids import Config

_logger = logging.getLogger(__name__)
_numbers = itertools.count(1)

Answer = Callable[[ConfigInfos | None, Exception | None], None]
"""Called exactly once, on a thread that it must not block, with the result or an error."""

DEADLINE_MS = 88_000  # shortly before REST's timeout (90 s), so that the response can name the stage that hangs
MAX_ABANDONED, MAX_OF_CLASS = 10, 64  # of one connector, and of its class; clients may repeat their requests forever


class Validation:
    """Starts validations. All methods may be called on any thread and return at once."""

    def __init__(
        self, plugins: Plugins, worker: ValidationSettings, resolve: Resolve, alarms: Alarms, *,
        deadline_ms: int = DEADLINE_MS, calls: MakeCalls = CallsHere,
    ) -> None:
        self._plugins = plugins
        self._worker = worker
        self._resolve = resolve
        self._alarms = alarms
        self._deadline_ms = deadline_ms
        self._calls = calls
        self._lock = threading.Lock()
        self._runs: set[_Run] = set()

    def start(self, config: Config, answer: Answer) -> None:
        """Answers ConfigInfos, which may contain errors; or BadRequestError if the config names no connector class or
        an unknown one, TimedOutError after the deadline, ConnectError if MAX_ABANDONED validations of the connector
        (its name and class), or MAX_OF_CLASS of its class, still hang, or what the plugin raised. Raises RuntimeError
        if no thread can be started.
        """
        run = _Run(config, answer, self._alarms, self._calls(config.get("name") or ""))
        with self._lock:
            abandoned = [other.connector for other in self._runs if other.abandoned]
        of_connector = abandoned.count(run.connector)
        of_class = sum(java_class == run.connector[1] for _, java_class in abandoned)
        if of_connector >= MAX_ABANDONED or of_class >= MAX_OF_CLASS:
            which = f"{of_connector} of this connector and {of_class} of its class"
            run.finish(None, ConnectError(f"Earlier validations are still hanging ({which}), so no more are started"))
            return
        name = f"validate-{config.get('name', '')}"
        self._alarms.set(run.key, self._alarms.now_ms() + self._deadline_ms, run.time_out)
        try:
            threading.Thread(target=self._validate, args=(config, run), name=name, daemon=True).start()
        except RuntimeError:
            self._alarms.cancel(run.key)
            raise

    def check(self, config: Config, answer: Callable[[Exception | None], None]) -> None:
        """Answers None if the connector may be created, else the error: BadRequestError with all messages."""

        def decide(infos: ConfigInfos | None, error: Exception | None) -> None:
            refused = infos is not None and infos.error_count > 0
            answer(BadRequestError(infos.message()) if infos is not None and refused else error)

        self.start(config, decide)

    def _validate(self, config: Config, run: _Run) -> None:
        with self._lock:
            self._runs.add(run)
        try:
            with plugin_code():
                infos = validate_connector(
                    config, plugins=self._plugins, worker=self._worker, resolve=self._resolve, stage=run.enter,
                    apart=run.calls.call,
                )
        except (NoConnectorClassError, NoConfigDefError, PluginNotFoundError) as error:
            run.finish(None, BadRequestError(str(error)))
        except Exception as error:  # noqa: BLE001  (plugin code: whatever it raises is the answer)
            run.finish(None, error)
        else:
            run.finish(infos, None)
        finally:
            with self._lock:
                self._runs.discard(run)


class _Run:
    """One validation: its current stage, and its answer, which is given once."""

    def __init__(self, config: Config, answer: Answer, alarms: Alarms, calls: Calls) -> None:
        self.calls = calls
        self.connector = config.get("name"), config.get("connector.class")
        self.abandoned = False
        self.key = ("validation", next(_numbers))
        self._answer: Answer | None = answer
        self._alarms = alarms
        self._lock = threading.Lock()
        self._stage = RequestStage(
            "waiting for a new thread to become available for connector validation", alarms.now_ms()
        )

    def enter(self, description: str) -> None:
        """A stage of the validation begins."""
        self._stage = RequestStage(description, self._alarms.now_ms())

    def finish(self, infos: ConfigInfos | None, error: Exception | None) -> None:
        """Answers, unless it has been answered already."""
        with self._lock:
            answer, self._answer = self._answer, None
        self._alarms.cancel(self.key)
        if answer is not None:
            answer(infos, error)

    def time_out(self) -> None:
        """The deadline has passed."""
        self.abandoned = True
        stage = self._stage
        begun = datetime.fromtimestamp(stage.started_ms / 1000, UTC).isoformat(timespec="milliseconds")
        name, _ = self.connector
        _logger.warning("Validation of the connector %s is taking too long while %s", name, stage.description,
                        extra={"heeler_about": name})
        self.finish(None, TimedOutError(
            f"Request timed out. The worker is currently {stage.description}, which began at "
            f"{begun.replace('+00:00', 'Z')}.", stage,
        ))
        self.calls.kill()


def describe_plugin(plugins: Plugins, name: str, version: str | None) -> Sequence[Mapping[str, Any]]:
    """The configuration keys of a plugin for GET /connector-plugins/{name}/config.

    Raises NotFoundError, and BadRequestError if the installed version does not match (KIP-891).
    """
    try:
        return plugin_config(plugins, name, version)
    except PluginNotFoundError as error:
        raise NotFoundError(str(error)) from error
    except ConfigError as error:
        raise BadRequestError(str(error)) from error
