"""A record goes through a connector, transforms and converters of one runtime: Python, or the host of Java plugins."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from spark_tasks.config.definition import ConfigValue
from spark_tasks.plugins import Plugin
from spark_tasks.validation.base import CONVERTERS, SIMPLE_HEADERS, Subject
from spark_tasks.validation.chain import Link
from spark_tasks.validation.classes import lookup

_KAFKAS = "org.apache.kafka.connect."  # heeler's of these names are also in Kafka's jars


def check_runtimes(subject: Subject, chain: Iterable[Link], values: Mapping[str, ConfigValue]) -> None:
    """Errors about plugins of the other runtime."""
    java = is_java(subject.plugin)
    named = [(link.type_key, link.kind, subject.props.get(link.type_key)) for link in chain]
    for key, kind in CONVERTERS.items():
        default = SIMPLE_HEADERS if key == "header.converter" else None
        named.append((key, kind, subject.props.get(key) or subject.worker.get(key, default)))
    for key, kind, name in named:
        plugin = lookup(subject.plugins, kind, name)
        if plugin is None:
            continue
        if java and not is_java(plugin) and not plugin.name.startswith(_KAFKAS):
            values[key].errors.append(
                f"{plugin.name} is a Python plugin; the records of a Java connector go through Java plugins only")
        elif is_java(plugin) and not java:
            values[key].errors.append(
                f"{plugin.name} is a Java plugin; the records of a Python connector go through Python plugins only")


def is_java(plugin: Plugin) -> bool:
    """Whether the host of Java plugins runs it."""
    return getattr(plugin.cls, "runtime", "python") == "java"
