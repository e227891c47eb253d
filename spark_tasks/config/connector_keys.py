"""The configuration keys of all connectors (COMMON), and the additional ones of sources and sinks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from spark_tasks.config.definition import (
    AllOf,
    Check,
    ConfigDef,
    ConfigKey,
    Importance,
    NonEmpty,
    NonEmptyNoControlChars,
    NonNull,
    OneOf,
    OneOfIgnoringCase,
    Type,
    ValidList,
    Width,
    at_least,
    between,
    invalid,
    parse_type,
)
from spark_tasks.config.validators import ValidRegex
from spark_tasks.limits import MAX_TASKS

HIGH, MEDIUM, LOW = Importance.HIGH, Importance.MEDIUM, Importance.LOW
QUEUE: Final = "errors.deadletterqueue.topic.name"


def aliases(config: Mapping[str, Any], key: str) -> list[str]:
    """Returns the aliases in a list such as `transforms`. Raises ConfigError."""
    return [alias for alias in parse_type(key, config.get(key), Type.LIST) or () if alias]


def unique_aliases(what: str) -> AllOf:
    """Returns a validator of a list of aliases. `what`: names the aliases in its description."""

    def check(name: str, value: Any) -> None:
        if len(set(value)) < len(value):
            raise invalid(name, value, "Duplicate alias provided.")

    return AllOf(NonNull(), Check(check, f"unique {what}"))


def _key(name: str, kind: Type, display: str, doc: str, **more: Any) -> ConfigKey:
    return ConfigKey(name, kind, display_name=display, doc=doc, **more)


def _common(order: int, width: Width, importance: Importance = LOW) -> dict[str, Any]:
    return {"group": "Common", "order": order, "width": width, "importance": importance}


def _errors(order: int, width: Width = Width.MEDIUM) -> dict[str, Any]:
    return {"group": "Error Handling", "order": order, "width": width, "importance": MEDIUM}


def _converter(order: int, what: str) -> tuple[ConfigKey, ConfigKey]:
    name = f"{what.lower()}.converter"
    return (
        _key(name, Type.CLASS, f"{what} converter class", default=None, **_common(order, Width.SHORT),
             doc=f"The class that converts record {what.lower()}s to bytes and back. Unset: the worker's setting."),
        _key(f"{name}.plugin.version", Type.STRING, f"{what} converter version", default=None,
             **_common(order + 1, Width.SHORT),
             doc=f"The required version, or range of versions, of the {name} (KIP-891)."),
    )


COMMON = ConfigDef(
    _key("name", Type.STRING, "Connector name", "The connector's name, unique in the cluster.",
         validator=NonEmptyNoControlChars(), **_common(1, Width.MEDIUM, HIGH)),
    _key("connector.class", Type.STRING, "Connector class",
         "The class name of the connector plugin, or a short form such as FileStreamSink.",
         **_common(2, Width.LONG, HIGH)),
    _key("connector.plugin.version", Type.STRING, "Connector version", default=None,
         doc="The required version, or range of versions, of the connector plugin (KIP-891).",
         **_common(3, Width.MEDIUM, MEDIUM)),
    _key("tasks.max", Type.INT, "Tasks max", "The maximum number of tasks of the connector.",
         default=1, validator=between(1, MAX_TASKS), **_common(4, Width.SHORT, HIGH)),
    _key("tasks.max.enforce", Type.BOOLEAN, "Enforce tasks max", default=True, **_common(5, Width.SHORT),
         doc="Deprecated. Whether a connector that generates more tasks than tasks.max fails (KIP-1004)."),
    *_converter(6, "Key"), *_converter(8, "Value"), *_converter(10, "Header"),
    _key("transforms", Type.LIST, "Transforms", "Aliases of the transformations to apply to records, in order.",
         default=(), validator=unique_aliases("transformation aliases"), group="Transforms", order=12,
         width=Width.LONG, importance=LOW),
    _key("predicates", Type.LIST, "Predicates", "Aliases of the predicates that transformations may use.",
         default=(), validator=unique_aliases("predicate aliases"), group="Predicates", order=13, width=Width.LONG,
         importance=LOW),
    _key("config.action.reload", Type.STRING, "Reload Action", default="restart", validator=OneOf("none", "restart"),
         doc="What to do when a config provider reports that a value has changed: restart the connector, or nothing.",
         **_common(14, Width.MEDIUM)),
    _key("errors.retry.timeout", Type.LONG, "Retry Timeout for Errors", default=0, **_errors(1),
         doc="How long to retry retriable errors of converters and transforms before the task fails, in milliseconds; "
             "0 and -1: without limit."),
    _key("errors.retry.delay.max.ms", Type.LONG, "Maximum Delay Between Retries for Errors", default=60000,
         doc="The maximum pause between two retries, in milliseconds; it varies at random.", **_errors(2)),
    _key("errors.tolerance", Type.STRING, "Error Tolerance", default="none", validator=OneOf("none", "all"),
         doc="How to handle a bad record: none fails the task, all skips the record.", **_errors(3, Width.SHORT)),
    _key("errors.log.enable", Type.BOOLEAN, "Log Errors", default=False, **_errors(4, Width.SHORT),
         doc="Whether to log tolerated errors, too."),
    _key("errors.log.include.messages", Type.BOOLEAN, "Log Error Details", default=False, **_errors(5, Width.SHORT),
         doc="Whether the log shows the position of a failed record or, for a source, its content."),
)


def _sink_keys() -> tuple[ConfigKey, ...]:
    dlq = "errors.deadletterqueue."
    return (
        _key("topics", Type.LIST, "Topics", "The topics to read, separated by commas.", default="",
             validator=ValidList(), **_common(4, Width.LONG, HIGH)),
        _key("topics.regex", Type.STRING, "Topics regex", default="", validator=ValidRegex(),
             doc="A regular expression for the topics to read, instead of topics.", **_common(4, Width.LONG, HIGH)),
        _key(QUEUE, Type.STRING, "Dead Letter Queue Topic Name", default="", **_errors(6),
             doc="The topic for bad records; empty for none."),
        _key(dlq + "topic.replication.factor", Type.SHORT, "Dead Letter Queue Topic Replication Factor", default=3,
             doc="The replication factor of that topic if it has to be created.", **_errors(7)),
        _key(dlq + "context.headers.enable", Type.BOOLEAN, "Enable Error Context Headers", default=False, **_errors(8),
             doc="Whether records there have headers, __connect.errors.*, that describe the error."),
    )


def _at_least_zero_or_unset(name: str, value: Any) -> None:
    if value is not None:
        at_least(0)(name, value)


_ONCE: Mapping[str, Any] = {"group": "Exactly Once Support", "width": Width.SHORT}

TRANSACTION_KEYS = ConfigDef(
    _key("transaction.boundary", Type.STRING, "Transaction Boundary", default="poll", order=3, importance=MEDIUM,
         validator=OneOfIgnoringCase("INTERVAL", "POLL", "CONNECTOR"), **_ONCE,
         doc="When to commit a transaction: after each batch (poll), after an interval, or when the connector "
             "requests it (connector)."),
    _key("transaction.boundary.interval.ms", Type.LONG, "Transaction boundary interval", default=None, order=4,
         importance=LOW, validator=Check(_at_least_zero_or_unset, str(at_least(0))), **_ONCE,
         doc="The interval of transaction.boundary=interval in milliseconds. Unset: the worker's "
             "offset.flush.interval.ms."),
)


def _source_keys() -> tuple[ConfigKey, ...]:
    return (
        _key("topic.creation.groups", Type.LIST, "Topic Creation Groups", default=(), group="Topic Creation", order=1,
             width=Width.LONG, importance=LOW, validator=unique_aliases("topic creation groups"),
             doc="Names of groups of settings for the creation of topics (KIP-158)."),
        _key("exactly.once.support", Type.STRING, "Exactly once support", default="requested", order=2,
             importance=MEDIUM, validator=OneOfIgnoringCase("REQUIRED", "REQUESTED"), **_ONCE,
             doc="required rejects the connector unless worker and connector support exactly-once delivery (KIP-618); "
                 "requested checks nothing."),
        *TRANSACTION_KEYS.keys.values(),
        _key("offsets.storage.topic", Type.STRING, "Offsets topic", default=None, validator=NonEmpty(), order=1,
             group="offsets.topic", width=Width.LONG, importance=LOW,
             doc="A separate topic for this connector's offsets, created if needed. Unset: the worker's topic."),
    )


SINK = COMMON.plus(*_sink_keys())
SOURCE = COMMON.plus(*_source_keys())

_TASKS_MAX = ConfigDef(COMMON.keys["tasks.max"])


def tasks_max(config: Mapping[str, Any]) -> int:
    """Returns a connector's maximum number of tasks. Raises ConfigError."""
    return int(_TASKS_MAX.parse(config)["tasks.max"])


def topics_of(config: Mapping[str, Any]) -> tuple[str, ...]:
    """Returns the topics that a sink's configuration names, each once; none if it has topics.regex. (A null means none,
    as for Java.)
    """
    topics = parse_type("topics", config.get("topics") or "", Type.LIST)
    return tuple(dict.fromkeys(topic for topic in topics if topic))


def queue_of(config: Mapping[str, Any]) -> str:
    """Returns the topic of a connector's dead letter queue, empty for none. (A null means none, as for Java.)"""
    return (config.get(QUEUE) or "").strip()
