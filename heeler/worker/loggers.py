"""The worker's loggers as REST shows and sets them (KIP-495, KIP-676, KIP-976)."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from actors.ticker import Ticker
from heeler.worker.logs import parse_level
from spark_tasks.errors import ConfigError, shortened
from spark_tasks.process.log_levels import LONGEST_NAME, level_name

_logger = logging.getLogger(__name__)

ROOT = "root"


@dataclass(frozen=True, slots=True)
class LoggerLevel:
    """A logger's level, and when it was changed (ms since 1970; None: not since the worker started)."""

    level: str
    last_modified_ms: int | None


class WorkerLoggers:
    """Implements rest.wire.worker_view.Loggers. Changes last until the process ends."""

    def __init__(self) -> None:
        self._modified: dict[str, int] = {}
        self._lock = threading.Lock()
        self.follower: Callable[[str, int], None] = lambda _namespace, _level: None
        """Called with each namespace whose level is set, for loggers in other processes."""

    def levels(self) -> Mapping[str, LoggerLevel]:
        """Loggers whose level was set, sorted; `root` too."""
        levels = {ROOT: self._of(ROOT)}
        levels |= {name: self._of(name) for name in self._names() if logging.getLogger(name).level != logging.NOTSET}
        return dict(sorted(levels.items()))

    def level(self, name: str) -> LoggerLevel | None:
        """The effective level of a logger; None if there is no such logger."""
        name = _named(name)
        return self._of(name) if name == ROOT or name in self._names() else None

    def set_level(self, namespace: str, level: str) -> Sequence[str]:
        """Sets the level of a logger and those below it. Returns the sorted names of those that changed; the others
        keep their `last_modified_ms`. Raises ConfigError for an unknown level, or a name longer than LONGEST_NAME.
        """
        number = parse_level(level)
        if len(namespace) > LONGEST_NAME:
            raise ConfigError(f"its name has {len(namespace):,} characters; at most {LONGEST_NAME:,} are allowed")
        namespace = _named(namespace)
        _logger.info("Setting the level of logger %s, and of those below it, to %s", namespace, level_name(number))
        with self._lock:
            names = self._names()
            below = names if namespace == ROOT else [n for n in names if n.startswith(namespace + ".")]
            changed = []
            for name in sorted({namespace, *below}):
                logger = logging.getLogger(None if name == ROOT else name)
                if logger.level != number:
                    logger.setLevel(number)
                    self._modified[name] = Ticker.now_ms()
                    changed.append(name)
        self.follower(namespace, number)
        return changed

    def follow_cluster(self, namespace: str, level: str) -> None:
        """Sets a level from the config topic; an unknown one, or a name that is too long, is logged and otherwise
        ignored.
        """
        try:
            self.set_level(namespace, level)
        except ConfigError as error:
            _logger.warning("The level of logger %s in the config topic is ignored: %s",
                            shortened(namespace, LONGEST_NAME), error)

    def _of(self, name: str) -> LoggerLevel:
        logger = logging.getLogger(None if name == ROOT else name)
        return LoggerLevel(level_name(logger.getEffectiveLevel()), self._modified.get(name))

    @staticmethod
    def _names() -> list[str]:
        known = logging.Logger.manager.loggerDict
        return sorted(name for name, logger in list(known.items()) if isinstance(logger, logging.Logger))


def _named(logger: str) -> str:
    """The name of the logger; that of the root logger may be in any case, as in Kafka Connect."""
    return ROOT if logger.lower() == ROOT else logger
