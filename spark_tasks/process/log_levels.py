"""Kafka Connect's names of log levels, which are Log4j's, and Python's numbers for them."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Final

TRACE: Final = 5
LONGEST_NAME: Final = 1000
"""Characters of a logger's name from outside: Python keeps each prefix of a name that ends before a dot, forever."""
LEVELS: Final[Mapping[str, int]] = {
    "OFF": logging.CRITICAL + 10, "FATAL": logging.CRITICAL, "ERROR": logging.ERROR, "WARN": logging.WARNING,
    "INFO": logging.INFO, "DEBUG": logging.DEBUG, "TRACE": TRACE, "ALL": 1,
}
SLF4J: Final = {name: LEVELS[name] for name in ("ERROR", "WARN", "INFO", "DEBUG", "TRACE")}
"""The levels that Java plugins log with."""


def level_name(number: int) -> str:
    """Returns Kafka Connect's name of a level, or of the next lower one that has a name."""
    return next((name for name, least in LEVELS.items() if number >= least), "ALL")


def slf4j_level(number: int) -> str:
    """Returns the lowest of slf4j's levels whose lines a Python logger of this level would log, or OFF."""
    return next((name for name, level in reversed(SLF4J.items()) if level >= number), "OFF")


def level_number(name: str) -> int | None:
    """Returns the number of a level by its name, in any case. Also accepts WARNING and CRITICAL. Returns None for an
    unknown name.
    """
    upper = name.strip().upper()
    return LEVELS.get({"WARNING": "WARN", "CRITICAL": "FATAL"}.get(upper, upper))
