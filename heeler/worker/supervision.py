"""When the connectors of a worker, and their tasks, are restarted automatically, and when they count as stalled."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from spark_tasks.config.restart_policy import CONNECTOR, PROGRESS_TIMEOUT, RestartPolicy, settings
from spark_tasks.errors import ConfigError
from storage.ids import Config

_logger = logging.getLogger(__name__)
_NAMES: Final = tuple(CONNECTOR.keys)
_KNOWN: Final = 1000  # combinations of connectors' own settings; most connectors have none


@dataclass(frozen=True, slots=True)
class _Parsed:
    """`progress_s`: how long a batch, or a call of the connector, may take. `error`: why the connector's own settings
    are invalid: then it is not restarted, and has the worker's `progress_s`.
    """

    restarts: RestartPolicy
    progress_s: float
    error: str | None = None


class Supervision:
    """The settings of each connector: its own, or else the worker's. They are parsed once, and not at every failure.
    `worker`: the values of its configuration.
    """

    def __init__(self, worker: Mapping[str, Any]) -> None:
        self._worker = worker
        self._parsed = lru_cache(_KNOWN)(self._parse)

    def restart_policy(self, connector: Config) -> RestartPolicy:
        """The restart policy of a connector; with invalid settings, it is not restarted."""
        parsed = self._of(connector)
        if parsed.error is not None:
            _logger.warning("Not restarted automatically, because its settings for restarts and stalls are invalid: %s",
                            parsed.error, extra={"heeler_about": connector.get("name")})
        return parsed.restarts

    def progress_s(self, connector: Config) -> float:
        """How many seconds a task of a connector may take for a batch, and the connector for a call; 0: without a
        limit. If the connector's own setting is invalid, the worker's applies.
        """
        parsed = self._of(connector)
        if parsed.error is not None and PROGRESS_TIMEOUT in connector:
            _logger.warning("The worker's task.progress.timeout.ms applies: %s", parsed.error,
                            extra={"heeler_about": connector.get("name")})
        return parsed.progress_s

    def _of(self, connector: Config) -> _Parsed:
        return self._parsed(*map(connector.get, _NAMES))

    def _parse(self, *own: str | None) -> _Parsed:
        try:
            values = settings(self._worker, dict(zip(_NAMES, own, strict=True)))
            return _Parsed(RestartPolicy.of(values), values[PROGRESS_TIMEOUT] / 1000)
        except ConfigError as error:
            return _Parsed(RestartPolicy(), self._worker[PROGRESS_TIMEOUT] / 1000, str(error))
