"""Where the chain of a Java connector's converters and transforms is cut, if it has plugins that only Python has.

A record goes through the chain in one direction, so one cut divides it: in a sink heeler runs what stands before it, in
a source what stands behind it, and the host of Java plugins the rest. A plugin that both have goes to either side.
Where no Python transform runs, each converter stays on its own side, because keys, values and headers do not meet.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from spark_tasks.config.definition import Type, parse_type
from spark_tasks.errors import ConfigError
from spark_tasks.plugins.kinds import Kind, Plugin, PluginNotFoundError
from spark_tasks.plugins.registry import Plugins

PARTS: Final = ("key", "value", "header")
_KAFKAS: Final = "org.apache.kafka.connect."  # heeler's of these names are also in Kafka's jars
_BYTES: Final = "org.apache.kafka.connect.converters.ByteArrayConverter"
_JSON: Final = "org.apache.kafka.connect.json.JsonConverter"


class Refusal(NamedTuple):
    """What is wrong with the configuration, at the key that is to blame."""

    key: str
    message: str


@dataclass(frozen=True, slots=True)
class Cut:
    """A chain that is cut. `python`, `java`: the aliases of the transforms on either side; `converted`: of PARTS those
    that heeler converts. The bytes of the others cross the cut as they are in Kafka.
    """

    python: tuple[str, ...] = ()
    java: tuple[str, ...] = ()
    converted: frozenset[str] = frozenset()

    @property
    def divides(self) -> bool:
        """Whether heeler has a part of it."""
        return bool(self.python or self.converted)

    def for_heeler(self, connector: Mapping[str, str]) -> dict[str, str]:
        """The configuration of heeler's pipeline."""
        found = _with_chain(connector, self.python)
        for part in PARTS:
            if part not in self.converted and not (part == "header" and self.python):
                found = _converting(found, part, {"": _BYTES})
        return found

    def for_host(self, connector: Mapping[str, str]) -> dict[str, str]:
        """The configuration of the task in the host. `connector`: with the worker's converters if it names none."""
        found = _with_chain(connector, self.java)
        for part in self.converted:
            found = _converting(found, part, {"": _JSON, ".schemas.enable": "true"})
        return found


def _with_chain(connector: Mapping[str, str], aliases: Sequence[str]) -> dict[str, str]:
    keys = (f"transforms.{alias}.predicate" for alias in aliases)
    predicates = dict.fromkeys(connector[key] for key in keys if key in connector)
    return {**connector, "transforms": ",".join(aliases), "predicates": ",".join(predicates)}


def _converting(connector: Mapping[str, str], part: str, setting: Mapping[str, str]) -> dict[str, str]:
    key = f"{part}.converter"
    kept = {name: value for name, value in connector.items() if name != key and not name.startswith(f"{key}.")}
    return kept | {key + suffix: value for suffix, value in setting.items()}


class _Step(NamedTuple):
    """A converter or a transform with its predicate: what to call it, the key of its class, and who has it."""

    title: str
    key: str
    python: bool
    java: bool


def is_java(plugin: Plugin) -> bool:
    """Whether the host of Java plugins runs it."""
    return getattr(plugin.cls, "runtime", "python") == "java"


def cut_of(
    plugins: Plugins, connector: Mapping[str, Any], worker: Mapping[str, str], *, is_sink: bool
) -> tuple[Cut | None, list[Refusal]]:
    """The cut of a Java connector's chain, None where Java has all of it; and why it cannot be cut. `plugins`: the
    worker's, Java's among them; names that it does not know are not looked at. `worker`: its converters.
    """
    looked = _Looked(plugins, connector, worker)
    steps, refusals = looked.transforms()
    converters = looked.converters()
    own = [place for place, step in enumerate(steps) if not step.java]
    aliases = list(looked.aliases)
    if not own:
        if all(step.java for step in converters.values()) and looked.predicates_in_java():
            return None, refusals
        return Cut((), tuple(aliases), frozenset(p for p, step in converters.items() if not step.java)), refusals
    begin, end = (0, own[-1] + 1) if is_sink else (own[0], len(steps))
    which = steps[own[-1 if is_sink else 0]]
    for step in steps[begin:end]:
        if not step.python:
            where, move = ("before", "behind") if is_sink else ("behind", "before")
            refusals.append(Refusal(step.key, (
                f"{step.title} is a Java plugin and stands {where} the Python plugin {which.title}; in a Java "
                f"{'sink Python' if is_sink else 'source Java'} plugins come first. Move it {move} that one in "
                "transforms, or use a Python plugin in its place")))
    for step in converters.values():
        if not step.python:
            refusals.append(Refusal(step.key, (
                f"{step.title} is a Java plugin, and the records of the Python plugin {which.title} are converted by "
                "Python. Use a converter that heeler has, or leave that plugin out")))
    converted = {"key", "value", *(part for part, step in converters.items() if not step.java)}
    cut = Cut(tuple(aliases[begin:end]), tuple(aliases[:begin] + aliases[end:]), frozenset(converted))
    return cut, refusals


class _Looked:
    """The plugins of a configuration."""

    def __init__(self, plugins: Plugins, connector: Mapping[str, Any], worker: Mapping[str, str]) -> None:
        self._plugins = plugins
        self._connector = connector
        self._worker = worker
        listed = parse_type("transforms", connector.get("transforms"), Type.LIST) or []
        self.aliases: Collection[str] = dict.fromkeys(listed)

    def converters(self) -> dict[str, _Step]:
        """By part; without those that are not known."""
        found = {}
        for part in PARTS:
            key, kind = f"{part}.converter", Kind.HEADER_CONVERTER if part == "header" else Kind.CONVERTER
            name = self._connector.get(key) or self._worker.get(key)
            if (plugin := self._plugin(kind, name)) is not None:
                found[part] = _Step(plugin.name, key, *self._sides(plugin))
        return found

    def transforms(self) -> tuple[list[_Step], list[Refusal]]:
        """One for each alias; a predicate counts with its transform."""
        steps, refusals = [], []
        for alias in self.aliases:
            key = f"transforms.{alias}.type"
            plugin = self._plugin(Kind.TRANSFORMATION, self._connector.get(key))
            python, java = (True, True) if plugin is None else self._sides(plugin)
            title = alias if plugin is None else f"{plugin.name} (transforms.{alias})"
            name = self._connector.get(f"transforms.{alias}.predicate")
            test = self._plugin(Kind.PREDICATE, self._connector.get(f"predicates.{name}.type"))
            if test is not None and plugin is not None:
                also_python, also_java = self._sides(test)
                if not (python and also_python) and not (java and also_java):
                    refusals.append(Refusal(f"predicates.{name}.type", (
                        f"{test.name} is a {'Java' if also_java else 'Python'} plugin, and {title}, which it is the "
                        f"predicate of, a {'Java' if java else 'Python'} plugin; both have to be of one runtime. Use "
                        "a predicate of Kafka Connect's own, which both have")))
                    also_python, also_java = python, java
                python, java = python and also_python, java and also_java
            steps.append(_Step(title, key, python, java))
        return steps, refusals

    def predicates_in_java(self) -> bool:
        """Whether Java has all predicates, used or not."""
        names = parse_type("predicates", self._connector.get("predicates"), Type.LIST) or []
        found = (self._plugin(Kind.PREDICATE, self._connector.get(f"predicates.{name}.type")) for name in names)
        return all(plugin is None or self._sides(plugin)[1] for plugin in found)

    def _plugin(self, kind: Kind, name: str | None) -> Plugin | None:
        try:
            return None if name is None else self._plugins.get(kind, name)
        except (PluginNotFoundError, ConfigError):
            return None

    def _sides(self, plugin: Plugin) -> tuple[bool, bool]:
        """Whether Python has it, and whether Java has."""
        if is_java(plugin):
            return False, True
        return True, plugin.name.startswith(_KAFKAS) or self._plugins.is_in_jars(plugin)
