"""The settings of the JVMs that run Java plugins (java.plugins.*)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final, Self

from spark_tasks.config.definition import (
    ConfigDef,
    ConfigKey,
    Importance,
    OneOf,
    Type,
    ValidList,
    at_least,
)
from spark_tasks.process.log_levels import level_number, slf4j_level

OPTIONS: Final = "java.plugins.jvm.options"
ISOLATION: Final = "java.plugins.isolation"
MAX_HUNG: Final = "java.plugins.hung.max"
ANSWER: Final = "java.plugins.answer.timeout.ms"
SILENCE: Final = "java.plugins.silence.timeout.ms"
PREFER: Final = "java.plugins.prefer"
DISCOVERY: Final = "plugin.discovery"  # as the next one, a key of Kafka Connect's workers
GRACE: Final = "task.shutdown.graceful.timeout.ms"
_DEFAULT_OPTIONS: Final = "-Xmx1G"
_LOW: Final = Importance.LOW

JAVA_KEYS: Final = ConfigDef(
    ConfigKey(OPTIONS, Type.STRING, default=None, importance=_LOW, doc=(
        "Options of the JVM that runs the Java plugins of plugin.path, such as -Xmx2G; unset for "
        f"{_DEFAULT_OPTIONS}.")),
    ConfigKey(ISOLATION, Type.STRING, default="worker", validator=OneOf("worker", "connector"), importance=_LOW, doc=(
        "Which Java plugins share a JVM: worker for all of them, connector for those of each connector alone, so that "
        "one that leaks or ends its JVM does not affect the others.")),
    ConfigKey(MAX_HUNG, Type.INT, default=8, validator=at_least(1), importance=_LOW, doc=(
        "How many abandoned threads of Java plugins may hang before their JVM is replaced. Its tasks stop cleanly "
        "and continue in a new one.")),
    # Less than the timeout of a validation, which can then name the plugin that hangs.
    ConfigKey(ANSWER, Type.LONG, default=85_000, validator=at_least(1), importance=_LOW, doc=(
        "How long a Java plugin may take for config, validate, alterOffsets and similar calls before the worker "
        "stops waiting.")),
    ConfigKey(SILENCE, Type.LONG, default=30_000, validator=at_least(1), importance=_LOW, doc=(
        "A JVM of Java plugins that does not respond for this long, because it is suspended or its heap is full, is "
        "ended; its tasks continue in a new one.")),
    ConfigKey(PREFER, Type.LIST, default=[], validator=ValidList(), importance=_LOW, doc=(
        "Classes of connectors and config providers for which the Java plugin in plugin.path is used although heeler "
        "has its own.")),
)


@dataclass(frozen=True, slots=True)
class JavaHostSettings:
    """`options`: of the JVM. `isolated`: whether each connector has its own JVM, in addition to one for requests about
    plugins. `max_hung`: the number of hung threads after which a JVM is replaced; `grace_s`: how long its tasks then
    have to leave it. `answer_s`: how long a plugin may take for a request; `silence_s`: how long a JVM may not respond
    before it is ended. `levels`: slf4j's level of each logger. `discovery`: the mode, in lower case; `prefer`: the
    classes for which Java's plugin is used.
    """

    options: str
    isolated: bool
    max_hung: int
    grace_s: float
    answer_s: float
    silence_s: float
    levels: Mapping[str, str]
    discovery: str
    prefer: Collection[str]

    @classmethod
    def of(cls, values: Mapping[str, Any], levels: Mapping[str, str]) -> Self:
        """`values`: the worker's, parsed; `levels`: those of loggers as the worker's file has them, of which the worker
        itself reports the ones that do not exist.
        """
        numbers = {name: level_number(level) for name, level in levels.items()}
        return cls(
            options=values[OPTIONS] or _DEFAULT_OPTIONS,
            isolated=values[ISOLATION] == "connector",
            max_hung=values[MAX_HUNG],
            grace_s=values[GRACE] / 1000,
            answer_s=values[ANSWER] / 1000,
            silence_s=values[SILENCE] / 1000,
            levels={name: slf4j_level(level) for name, level in numbers.items() if level is not None},
            discovery=values[DISCOVERY].lower(),
            prefer=values[PREFER],
        )
