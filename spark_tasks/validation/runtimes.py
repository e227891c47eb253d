"""Checks that a chain of Python and Java plugins can be divided between the two runtimes (plugins/chain_cut.py)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from spark_tasks.config.definition import ConfigValue
from spark_tasks.plugins.chain_cut import cut_of, is_java
from spark_tasks.validation.chain import Link
from spark_tasks.validation.common_keys import CONVERTERS, Subject
from spark_tasks.validation.plugin_keys import lookup


def check_runtimes(subject: Subject, chain: Iterable[Link], values: Mapping[str, ConfigValue]) -> None:
    """Adds errors of plugins of the other runtime that cannot run at their place in the chain."""
    java = is_java(subject.plugin)
    defaults = subject.worker.converters
    for refusal in cut_of(subject.plugins, subject.props, defaults, is_sink=subject.is_sink, java=java)[1]:
        values[refusal.key].errors.append(refusal.message)
    if java or not subject.worker.on_cluster:
        return
    named = [(link.type_key, link.kind, subject.props.get(link.type_key)) for link in chain]
    named += [(key, kind, subject.props.get(key) or defaults.get(key)) for key, kind in CONVERTERS.items()]
    for key, kind, name in named:
        plugin = lookup(subject.plugins, kind, name)
        if plugin is not None and is_java(plugin):
            values[key].errors.append(
                f"{plugin.name} is a Java plugin, but a Python connector's executors run on a cluster (spark.master), "
                "which cannot run Java plugins. Use a plugin that is built into heeler, or a Java connector")
