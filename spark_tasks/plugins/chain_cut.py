"""Divides a connector's chain of converters and transforms between heeler and the Java plugin host.

Records pass the chain in one direction, so one cut divides it. The plugins before the cut of a sink, and those after
the cut of a source, run in the other runtime ("far"); all others run in the connector's own runtime ("near"). A plugin
that both runtimes have may run on either side. Without a far transform, each converter runs in its own runtime, because
keys, values and headers are converted independently.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from spark_tasks.config.connector_keys import aliases
from spark_tasks.errors import ConfigError
from spark_tasks.plugins.kinds import Kind, Plugin, PluginNotFoundError
from spark_tasks.plugins.registry import Plugins

PARTS: Final = ("key", "value", "header")
_OF_KAFKA: Final = "org.apache.kafka.connect."  # plugins of heeler with such names are in Kafka's jars, too
_BYTES: Final = "org.apache.kafka.connect.converters.ByteArrayConverter"
_JSON: Final = "org.apache.kafka.connect.json.JsonConverter"


class Refusal(NamedTuple):
    """An error in the configuration, and the key that it belongs to."""

    key: str
    message: str


@dataclass(frozen=True, slots=True)
class Cut:
    """A divided chain. `far`, `near`: the aliases of the transforms on each side. `converted`: those of PARTS that the
    far side converts; the others pass the cut as the bytes in Kafka.
    """

    far: tuple[str, ...] = ()
    near: tuple[str, ...] = ()
    converted: frozenset[str] = frozenset()

    @property
    def divides(self) -> bool:
        """Whether any part of the chain runs on the far side."""
        return bool(self.far or self.converted)

    def for_far(self, connector: Mapping[str, str]) -> dict[str, str]:
        """Returns the configuration of the far side. `connector`: the connector's, see `with_converters`."""
        config = _with_chain(connector, self.far)
        for part in PARTS:
            if part not in self.converted and not (part == "header" and self.far):
                config = _converting(config, part, {"": _BYTES})
        return config

    def for_near(self, connector: Mapping[str, str]) -> dict[str, str]:
        """Returns the configuration of the near side. `connector`: the connector's."""
        config = _with_chain(connector, self.near)
        for part in self.converted:
            config = _converting(config, part, {"": _JSON, ".schemas.enable": "true"})
        return config


def with_converters(connector: Mapping[str, str], worker: Mapping[str, str]) -> dict[str, str]:
    """Returns the connector's configuration, with the worker's converters for those that it does not set."""
    config = dict(connector)
    for part in PARTS:
        key = f"{part}.converter"
        if not config.get(key) and worker.get(key):
            config |= {k: v for k, v in worker.items() if k == key or k.startswith(f"{key}.")}
    return config


def _with_chain(connector: Mapping[str, str], aliases: Sequence[str]) -> dict[str, str]:
    keys = (f"transforms.{alias}.predicate" for alias in aliases)
    predicates = dict.fromkeys(connector[key] for key in keys if key in connector)
    return {**connector, "transforms": ",".join(aliases), "predicates": ",".join(predicates)}


def _converting(connector: Mapping[str, str], part: str, setting: Mapping[str, str]) -> dict[str, str]:
    key = f"{part}.converter"
    kept = {name: value for name, value in connector.items() if name != key and not name.startswith(f"{key}.")}
    return kept | {key + suffix: value for suffix, value in setting.items()}


class _Step(NamedTuple):
    """A converter, or a transform with its predicate. `title`: its name in messages; `key`: that of its class; `far`,
    `near`: which side has it.
    """

    title: str
    key: str
    far: bool
    near: bool


def is_java(plugin: Plugin) -> bool:
    """Returns whether the Java plugin host runs a plugin."""
    return getattr(plugin.cls, "runtime", "python") == "java"


def cut_of(
    plugins: Plugins, connector: Mapping[str, Any], worker: Mapping[str, str], *, is_sink: bool, java: bool
) -> tuple[Cut | None, list[Refusal]]:
    """Returns the cut of a connector's chain (None if the near side has all plugins), and errors if it cannot be
    divided. `plugins`: all plugins of the worker, including Java's; unknown names are ignored. `worker`: the worker's
    converters. `java`: whether the connector is a Java plugin.
    """
    named = _NamedPlugins(plugins, connector, worker, java=java)
    steps, refusals = named.transforms()
    converters = named.converters()
    aliases, far, near = list(named.aliases), named.languages[0], named.languages[1]
    only_far = [place for place, step in enumerate(steps) if not step.near]
    header = converters.get("header")
    if header is not None and not header.near and not java:
        refusals.append(Refusal(header.key, (
            f"{header.title} is a Java plugin, but only heeler's own header converters work with a Python connector. "
            "Use one of these")))
    if not only_far:
        if all(step.near for step in converters.values()) and named.predicates_are_near():
            return None, refusals
        return Cut((), tuple(aliases), frozenset(p for p, step in converters.items() if not step.near)), refusals
    begin, end = (0, only_far[-1] + 1) if is_sink else (only_far[0], len(steps))
    which = steps[only_far[-1 if is_sink else 0]]
    first, last = (far, near) if is_sink else (near, far)
    for step in steps[begin:end]:
        if not step.far:
            where, move = ("before", "after") if is_sink else ("after", "before")
            refusals.append(Refusal(step.key, (
                f"{step.title} is a {near} plugin and comes {where} the {far} plugin {which.title}; in a {near} "
                f"{'sink' if is_sink else 'source'} all {first} plugins must come before all {last} plugins. Move it "
                f"{move} that one in transforms, or use a {far} plugin instead")))
    for step in converters.values():
        if not step.far:
            refusals.append(Refusal(step.key, (
                f"{step.title} is a {near} plugin, but {far} has to convert the records for the {far} plugin "
                f"{which.title}. Use a converter that {'heeler' if java else 'Java'} has, too, or remove that plugin")))
    converted = {"key", "value", *(part for part, step in converters.items() if not step.near)}
    cut = Cut(tuple(aliases[begin:end]), tuple(aliases[:begin] + aliases[end:]), frozenset(converted))
    return cut, refusals


def far_plugin(plugins: Plugins, connector: Mapping[str, Any], worker: Mapping[str, str]) -> Plugin | None:
    """Returns a Java plugin in the chain of a Python connector, or None."""
    return _NamedPlugins(plugins, connector, worker, java=False).first_of_java()


class _NamedPlugins:
    """The plugins that a connector's configuration names. `languages`: those of the far and of the near side."""

    def __init__(
        self, plugins: Plugins, connector: Mapping[str, Any], worker: Mapping[str, str], *, java: bool
    ) -> None:
        self._java = java
        self.languages = ("Python", "Java") if java else ("Java", "Python")
        self._plugins = plugins
        self._connector = connector
        self._worker = worker
        listed = aliases(connector, "transforms")
        self.aliases: Collection[str] = dict.fromkeys(listed)

    def converters(self) -> dict[str, _Step]:
        """Returns the known converters by part."""
        step_by_part = {}
        for part in PARTS:
            key, kind = f"{part}.converter", Kind.HEADER_CONVERTER if part == "header" else Kind.CONVERTER
            name = self._connector.get(key) or self._worker.get(key)
            if (plugin := self._plugin(kind, name)) is not None:
                step_by_part[part] = _Step(plugin.name, key, *self._sides(plugin))
        return step_by_part

    def transforms(self) -> tuple[list[_Step], list[Refusal]]:
        """Returns the transforms in order, each with its predicate, and errors for predicates of the other runtime."""
        steps, refusals = [], []
        for alias in self.aliases:
            key = f"transforms.{alias}.type"
            plugin = self._plugin(Kind.TRANSFORMATION, self._connector.get(key))
            far, near = (True, True) if plugin is None else self._sides(plugin)
            title = alias if plugin is None else f"{plugin.name} (transforms.{alias})"
            name = self._connector.get(f"transforms.{alias}.predicate")
            test = self._plugin(Kind.PREDICATE, self._connector.get(f"predicates.{name}.type"))
            if test is not None and plugin is not None:
                test_far, test_near = self._sides(test)
                if not (far and test_far) and not (near and test_near):
                    refusals.append(Refusal(f"predicates.{name}.type", (
                        f"{test.name} is a {self.languages[test_near]} plugin, but it is the predicate of {title}, a "
                        f"{self.languages[near]} plugin; both must run in the same runtime. Use one of Kafka Connect's "
                        "own predicates, which both runtimes have")))
                    test_far, test_near = far, near
                far, near = far and test_far, near and test_near
            steps.append(_Step(title, key, far, near))
        return steps, refusals

    def first_of_java(self) -> Plugin | None:
        """Returns the first Java plugin among the converters, transforms and predicates, or None."""
        kinds = [(Kind.CONVERTER, self._connector.get(key) or self._worker.get(key))
                 for key in ("key.converter", "value.converter")]
        kinds += [(Kind.TRANSFORMATION, self._connector.get(f"transforms.{alias}.type")) for alias in self.aliases]
        kinds += [(Kind.PREDICATE, name) for key, name in self._connector.items()
                  if key.startswith("predicates.") and key.endswith(".type")]
        plugins = (self._plugin(kind, name) for kind, name in kinds)
        return next((plugin for plugin in plugins if plugin is not None and is_java(plugin)), None)

    def predicates_are_near(self) -> bool:
        """Returns whether the near side has all predicates, including unused ones."""
        names = aliases(self._connector, "predicates")
        plugins = (self._plugin(Kind.PREDICATE, self._connector.get(f"predicates.{name}.type")) for name in names)
        return all(plugin is None or self._sides(plugin)[1] for plugin in plugins)

    def _plugin(self, kind: Kind, name: str | None) -> Plugin | None:
        try:
            return None if name is None else self._plugins.get(kind, name)
        except (PluginNotFoundError, ConfigError):
            return None

    def _sides(self, plugin: Plugin) -> tuple[bool, bool]:
        """Returns whether the far side and the near side have a plugin."""
        in_python = not is_java(plugin)
        in_java = not in_python or plugin.name.startswith(_OF_KAFKA) or self._plugins.is_in_jars(plugin)
        return (in_python, in_java) if self._java else (in_java, in_python)
