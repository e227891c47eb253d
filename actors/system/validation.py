"""Validation of connector configs beside the herder: each in a short-lived thread with a deadline.

Plugin code runs in it, which may hang; such a thread is left behind (as Kafka Connect does), its answer is not waited
for beyond the deadline, and nobody else is held up.
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
from spark_tasks.plugins import PluginNotFoundError, Plugins
from spark_tasks.validation import ConfigInfos, NoConnectorClassError, Resolve, plugin_config, validate_connector
from storage.ids import Config

_logger = logging.getLogger(__name__)
_numbers = itertools.count(1)

Answer = Callable[[ConfigInfos | None, Exception | None], None]
"""Called exactly once, from a thread that must not be kept: with the outcome, or the reason why there is none."""

DEADLINE_MS = 88_000  # a little before REST gives up (90 s), so that the answer can say what hangs


class Validation:
    """Validates for whoever asks. Everything here may be called from any thread and returns at once."""

    def __init__(
        self, plugins: Plugins, worker: Mapping[str, str], resolve: Resolve, alarms: Alarms, *,
        deadline_ms: int = DEADLINE_MS,
    ) -> None:
        self._plugins = plugins
        self._worker = worker
        self._resolve = resolve
        self._alarms = alarms
        self._deadline_ms = deadline_ms

    def start(self, config: Config, answer: Answer) -> None:
        """Answer ConfigInfos, whatever errors they hold; or BadRequestError where the config names no connector or
        one that is not there, TimedOutError after the deadline, or what the plugin raised.
        """
        run = _Run(answer, self._alarms)
        self._alarms.set(run.key, self._alarms.now_ms() + self._deadline_ms, run.time_out)
        name = f"validate-{config.get('name', '')}"
        threading.Thread(target=self._validate, args=(config, run), name=name, daemon=True).start()

    def check(self, config: Config, answer: Callable[[Exception | None], None]) -> None:
        """Answer None where the connector may be created, else the reason: BadRequestError with all messages."""

        def decide(infos: ConfigInfos | None, error: Exception | None) -> None:
            refused = infos is not None and infos.error_count > 0
            answer(BadRequestError(infos.message()) if infos is not None and refused else error)

        self.start(config, decide)

    def _validate(self, config: Config, run: _Run) -> None:
        try:
            infos = validate_connector(
                config, plugins=self._plugins, worker=self._worker, resolve=self._resolve, stage=run.enter
            )
        except (NoConnectorClassError, PluginNotFoundError) as error:
            run.finish(None, BadRequestError(str(error)))
        except Exception as error:  # noqa: BLE001  (plugin code: whatever it raises is the answer)
            run.finish(None, error)
        else:
            run.finish(infos, None)


class _Run:
    """One validation: what it does now, and its one answer."""

    def __init__(self, answer: Answer, alarms: Alarms) -> None:
        self.key = ("validation", next(_numbers))
        self._answer: Answer | None = answer
        self._alarms = alarms
        self._lock = threading.Lock()
        self._stage = RequestStage(
            "waiting for a new thread to become available for connector validation", alarms.now_ms()
        )

    def enter(self, description: str) -> None:
        """The validation begins with something."""
        self._stage = RequestStage(description, self._alarms.now_ms())

    def finish(self, infos: ConfigInfos | None, error: Exception | None) -> None:
        """Answer, unless that is done."""
        with self._lock:
            answer, self._answer = self._answer, None
        self._alarms.cancel(self.key)
        if answer is not None:
            answer(infos, error)

    def time_out(self) -> None:
        """The deadline has passed."""
        stage = self._stage
        begun = datetime.fromtimestamp(stage.started_ms / 1000, UTC).isoformat(timespec="milliseconds")
        _logger.warning("Validation of a connector is taking too long while %s", stage.description)
        self.finish(None, TimedOutError(
            f"Request timed out. The worker is currently {stage.description}, which began at "
            f"{begun.replace('+00:00', 'Z')}.", stage,
        ))


def describe_plugin(plugins: Plugins, name: str, version: str | None = None) -> Sequence[Mapping[str, Any]]:
    """A plugin's keys for GET /connector-plugins/{name}/config.

    Raises NotFoundError, and BadRequestError where the installed version does not fit (KIP-891).
    """
    try:
        return plugin_config(plugins, name, version)
    except PluginNotFoundError as error:
        raise NotFoundError(str(error)) from error
    except ConfigError as error:
        raise BadRequestError(str(error)) from error
