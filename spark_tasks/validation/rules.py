"""Kafka Connect's checks of sinks and sources that involve several keys. Each adds errors to the keys concerned."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, cast

from spark_tasks.config.auto_tasks import AUTO, AUTO_MAX, MAX
from spark_tasks.config.client_properties import consumer_group
from spark_tasks.config.connector_keys import QUEUE, SINK, queue_of, topics_of
from spark_tasks.config.definition import ConfigDef, ConfigValue
from spark_tasks.config.types import invalid, shown
from spark_tasks.errors import ConfigError
from spark_tasks.java.bounded_match import TOO_SLOW, matches
from spark_tasks.java.regex import compile_java
from spark_tasks.kafka.errors import InvalidTopicError
from spark_tasks.kafka.topic_names import is_valid_topic
from spark_tasks.validation.common_keys import Subject

if TYPE_CHECKING:
    from spark_tasks.plugins.api import SourceConnector

Values = dict[str, ConfigValue]

_QUEUE_PREFIX: Final = "errors.deadletterqueue."


def check_sink(subject: Subject, values: Values) -> None:
    """Checks topics, the dead letter queue and the consumer group."""
    _check_topics(subject, values)
    _check_dead_letters(subject, values)
    _check_queue(subject, values)
    _check_group(subject, values)


def check_scaling(subject: Subject, values: Values) -> None:
    """Checks that tasks.max=auto (as it is stored) and tasks.auto are used only with a sink, and their bounds."""
    if _text(subject, MAX).lower() == AUTO:
        values[MAX].errors.clear()
        values[MAX].errors.append(
            f"Invalid value {subject.props[MAX]} for configuration {MAX}: to let a sink's lag determine the number of "
            f"its tasks, set {MAX}={AUTO}, and {AUTO_MAX} to their maximum number")
    auto = subject.props.get(AUTO_MAX) is not None
    if auto:
        _check_maximum(subject, values)
    if "tasks.auto" not in values or not (auto or values["tasks.auto"].value is True):
        return
    if not subject.is_sink:
        key, value = (MAX, AUTO) if auto else ("tasks.auto", "true")
        values[key].errors.append(
            f"Invalid value {value} for configuration {key}: only the number of a sink's tasks can follow its lag; "
            f"set {MAX} to a number")
    lower, upper = values["tasks.auto.min"], values[AUTO_MAX if auto else MAX]
    if not lower.errors and not upper.errors and lower.value > upper.value:
        lower.errors.append(f"Invalid value {lower.value} for configuration tasks.auto.min: must not exceed "
                            f"{upper.name}, which is {upper.value}")


def _check_maximum(subject: Subject, values: Values) -> None:
    upper, given = values[AUTO_MAX], subject.props.get(MAX)
    if upper.errors and given == subject.props[AUTO_MAX]:
        values[MAX].errors.clear()  # the same errors: tasks.max=auto is stored as the value of tasks.auto.max
    elif given not in {subject.props[AUTO_MAX], AUTO}:
        upper.errors.append(f"Invalid value {subject.props[AUTO_MAX]} for configuration {AUTO_MAX}: it requires "
                            f"{MAX}=auto, but {MAX} is {given or 'not set'}")
    if values["tasks.auto"].value is False and subject.props.get("tasks.auto") is not None:
        upper.errors.append(
            f"Invalid value {subject.props[AUTO_MAX]} for configuration {AUTO_MAX}: it cannot be combined with "
            "tasks.auto=false")


def _text(subject: Subject, key: str) -> str:
    return (subject.props.get(key) or "").strip()


def topics_error(props: Mapping[str, str | None]) -> str | None:
    """Returns an error in a sink's settings of topics, or None."""
    topics, regex = ((props.get(key) or "").strip() for key in ("topics", "topics.regex"))
    if topics and regex:
        return "topics and topics.regex are mutually exclusive options, but both are set."
    return None if topics or regex else "Must configure one of topics or topics.regex"


def _check_topics(subject: Subject, values: Values) -> None:
    message = topics_error(subject.props)
    if message:
        values["topics"].errors.append(message)
        values["topics.regex"].errors.append(message)


def _check_queue(subject: Subject, values: Values) -> None:
    """Checks what Kafka Connect does not: its tasks would fail, or the letters would get among the cluster's data."""
    topic = queue_of(subject.props)
    why = None
    if topic and not is_valid_topic(topic):
        why = str(InvalidTopicError.of(topic))
    elif topic and topic in subject.worker.internal_topics:
        why = "this Connect cluster stores its own data in this topic; use another one"
    if why:
        value = values.setdefault(QUEUE, ConfigValue(QUEUE, topic))
        value.errors.append(str(invalid(QUEUE, topic, why)))


def _check_queue_of_source(subject: Subject, values: Values) -> None:
    """Checks the keys that only sinks have in Kafka Connect; they are listed only if they are wrong."""
    for key in (key for name, key in SINK.keys.items() if name.startswith(_QUEUE_PREFIX)):
        given = subject.props.get(key.name)
        try:
            if given is not None:
                ConfigDef(key).parse({key.name: given})
        except ConfigError as error:
            values[key.name] = ConfigValue(key.name, given, errors=[str(error)])


def _check_dead_letters(subject: Subject, values: Values) -> None:
    topic = queue_of(subject.props)
    if not topic:
        return
    topics = topics_of(subject.props)
    if topic in topics:
        values["topics"].errors.append(
            f"The DLQ topic '{topic}' may not be included in the list of topics "
            f"('topics={shown(topics)}') consumed by the connector"
        )
    regex = _text(subject, "topics.regex")
    try:
        if regex and matches(compile_java(regex), topic):
            values["topics.regex"].errors.append(
                f"The DLQ topic '{topic}' may not be matched by the regex for the topics "
                f"('topics.regex={regex}') consumed by the connector"
            )
    except re.error:
        return  # which the validator of topics.regex reports
    except TimeoutError:
        why = f"with the topic {topic}, it {TOO_SLOW}"
        values["topics.regex"].errors.append(str(invalid("topics.regex", regex, why)))


def _check_group(subject: Subject, values: Values) -> None:
    key = "consumer.override.group.id"
    workers = subject.worker.group_id
    if key in subject.props:
        group = subject.props[key]
        value = values.setdefault(key, ConfigValue(key, group))
        if group == workers:
            value.errors.append(f"Consumer group {group} conflicts with Connect worker group {workers}")
        return
    name = values["name"]
    if consumer_group(name.value, {}) == workers:
        name.errors.append(
            f"Consumer group for sink connector named {name.value} conflicts with Connect worker group {workers}"
        )


def check_source(subject: Subject, values: Values) -> None:
    """Checks that the connector supports exactly-once delivery and its own transaction boundaries, if they are required
    (KIP-618), and the dead letter queue.
    """
    _check_queue_of_source(subject, values)
    _check_queue(subject, values)
    support = values["exactly.once.support"]
    if not support.errors and str(support.value).lower() == "required":
        if not subject.worker.exactly_once:
            support.errors.append("This worker does not have exactly-once source support enabled.")
        _add_plugin_error(support, lambda: _support_error(subject))
    boundary = values["transaction.boundary"]
    if not boundary.errors and str(boundary.value).lower() == "connector":
        _add_plugin_error(boundary, lambda: _boundary_error(subject))


def _add_plugin_error(value: ConfigValue, check: Callable[[], str | None]) -> None:
    try:
        message = check()
    except Exception as e:  # noqa: BLE001  (the plugin's code may raise anything)
        detail = str(e).strip()
        message = "An unexpected error occurred during validation" + (
            f": {detail}" if detail else "; please see the worker logs for more details."
        )
    if message:
        value.errors.append(message)


def _source(subject: Subject) -> tuple[type[SourceConnector], dict[str, Any]]:
    props = {key: value for key, value in subject.props.items() if value is not None}
    return cast("type[SourceConnector]", subject.plugin.cls), props


def _support_error(subject: Subject) -> str | None:
    cls, props = _source(subject)
    supported = subject.call(cls.exactly_once_support, props)
    if supported is None:
        return (
            "The connector does not say whether it supports exactly-once delivery. If its documentation says that it "
            'does, use the value "requested", which skips this check.'
        )
    if supported:
        return None
    return "The connector does not support exactly-once semantics with the provided configuration."


def _boundary_error(subject: Subject) -> str | None:
    cls, props = _source(subject)
    if subject.call(cls.can_define_transaction_boundaries, props):
        return None
    return (
        "The connector does not support connector-defined transaction boundaries with the given configuration. "
        "Please reconfigure it to use a different transaction boundary definition."
    )


