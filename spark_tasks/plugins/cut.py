"""Where a connector's chain of converters and transforms is cut if some of them belong to the other runtime.

A record goes through the chain in one direction, so one cut divides it: plugins before it in a sink, and behind it in a
source, run in the other runtime ("far"), and all others in the connector's own ("near"). A plugin that both runtimes
have may run on either side. Without a far transform each converter runs where it belongs, because keys, values and
headers are converted independently.
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
_KAFKAS: Final = "org.apache.kafka.connect."  # heeler's plugins with these names are in Kafka's jars too
_BYTES: Final = "org.apache.kafka.connect.converters.ByteArrayConverter"
_JSON: Final = "org.apache.kafka.connect.json.JsonConverter"


class Refusal(NamedTuple):
    """An error in the configuration, and the key to blame."""

    key: str
    message: str


@dataclass(frozen=True, slots=True)
class Cut:
    """A chain that is cut. `far`, `near`: the aliases of the transforms on either side; `converted`: those of PARTS
    that the far side converts. The others cross the cut as their bytes in Kafka.
    """

    far: tuple[str, ...] = ()
    near: tuple[str, ...] = ()
    converted: frozenset[str] = frozenset()

    @property
    def divides(self) -> bool:
        """Whether any of the chain runs on the far side."""
        return bool(self.far or self.converted)

    def for_far(self, connector: Mapping[str, str]) -> dict[str, str]:
        """The configuration of the far side. `connector`: with the worker's converters if it names none."""
        found = _with_chain(connector, self.far)
        for part in PARTS:
            if part not in self.converted and not (part == "header" and self.far):
                found = _converting(found, part, {"": _BYTES})
        return found

    def for_near(self, connector: Mapping[str, str]) -> dict[str, str]:
        """The configuration of the connector's own side."""
        found = _with_chain(connector, self.near)
        for part in self.converted:
            found = _converting(found, part, {"": _JSON, ".schemas.enable": "true"})
        return found


def with_converters(connector: Mapping[str, str], worker: Mapping[str, str]) -> dict[str, str]:
    """The connector's configuration, with the worker's converters if it names none."""
    found = dict(connector)
    for part in PARTS:
        key = f"{part}.converter"
        if not found.get(key) and worker.get(key):
            found |= {k: v for k, v in worker.items() if k == key or k.startswith(f"{key}.")}
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
    """A converter or a transform with its predicate: what to call it, the key of its class, and which side has it."""

    title: str
    key: str
    far: bool
    near: bool


def is_java(plugin: Plugin) -> bool:
    """Whether the host of Java plugins runs it."""
    return getattr(plugin.cls, "runtime", "python") == "java"


def cut_of(
    plugins: Plugins, connector: Mapping[str, Any], worker: Mapping[str, str], *, is_sink: bool, java: bool
) -> tuple[Cut | None, list[Refusal]]:
    """The cut of a connector's chain, None if its own runtime has all of it; and why it cannot be cut. `plugins`: the
    worker's, including Java's; names that it does not know are ignored. `worker`: the worker's converters; `java`:
    whether the connector is a Java plugin.
    """
    looked = _Looked(plugins, connector, worker, java=java)
    steps, refusals = looked.transforms()
    converters = looked.converters()
    aliases, far, near = list(looked.aliases), looked.words[0], looked.words[1]
    strange = [place for place, step in enumerate(steps) if not step.near]
    header = converters.get("header")
    if header is not None and not header.near and not java:
        refusals.append(Refusal(header.key, (
            f"{header.title} is a Java plugin; a Python connector has the bytes of headers, which heeler's own "
            "converters read. Use one of these")))
    if not strange:
        if all(step.near for step in converters.values()) and looked.predicates_are_near():
            return None, refusals
        return Cut((), tuple(aliases), frozenset(p for p, step in converters.items() if not step.near)), refusals
    begin, end = (0, strange[-1] + 1) if is_sink else (strange[0], len(steps))
    which = steps[strange[-1 if is_sink else 0]]
    first, last = (far, near) if is_sink else (near, far)
    for step in steps[begin:end]:
        if not step.far:
            where, move = ("before", "behind") if is_sink else ("behind", "before")
            refusals.append(Refusal(step.key, (
                f"{step.title} is a {near} plugin and stands {where} the {far} plugin {which.title}; in a {near} "
                f"{'sink' if is_sink else 'source'} the {first} plugins come first, then the {last} plugins. Move it "
                f"{move} that one in transforms, or use a {far} plugin in its place")))
    for step in converters.values():
        if not step.far:
            refusals.append(Refusal(step.key, (
                f"{step.title} is a {near} plugin, and the records of the {far} plugin {which.title} are converted by "
                f"{far}. Use a converter that {'heeler' if java else 'Java'} has too, or leave that plugin out")))
    converted = {"key", "value", *(part for part, step in converters.items() if not step.near)}
    cut = Cut(tuple(aliases[begin:end]), tuple(aliases[:begin] + aliases[end:]), frozenset(converted))
    return cut, refusals


def far_plugin(plugins: Plugins, connector: Mapping[str, Any], worker: Mapping[str, str]) -> Plugin | None:
    """A Java plugin in the chain of a Python connector, None if there is none."""
    return _Looked(plugins, connector, worker, java=False).first_of_java()


class _Looked:
    """The plugins that a configuration names."""

    def __init__(
        self, plugins: Plugins, connector: Mapping[str, Any], worker: Mapping[str, str], *, java: bool
    ) -> None:
        self._java = java
        self.words = ("Python", "Java") if java else ("Java", "Python")
        self._plugins = plugins
        self._connector = connector
        self._worker = worker
        listed = parse_type("transforms", connector.get("transforms"), Type.LIST) or []
        self.aliases: Collection[str] = dict.fromkeys(listed)

    def converters(self) -> dict[str, _Step]:
        """The converters by part, without unknown ones."""
        found = {}
        for part in PARTS:
            key, kind = f"{part}.converter", Kind.HEADER_CONVERTER if part == "header" else Kind.CONVERTER
            name = self._connector.get(key) or self._worker.get(key)
            if (plugin := self._plugin(kind, name)) is not None:
                found[part] = _Step(plugin.name, key, *self._sides(plugin))
        return found

    def transforms(self) -> tuple[list[_Step], list[Refusal]]:
        """The transforms by alias, each with its predicate."""
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
                        f"{test.name} is a {self.words[test_near]} plugin, and {title}, which it is the predicate of, "
                        f"a {self.words[near]} plugin; both have to run in one runtime. Use a predicate of Kafka "
                        "Connect's own, which both have")))
                    test_far, test_near = far, near
                far, near = far and test_far, near and test_near
            steps.append(_Step(title, key, far, near))
        return steps, refusals

    def first_of_java(self) -> Plugin | None:
        """The first Java plugin among the converters and transforms."""
        kinds = [(Kind.CONVERTER, self._connector.get(key) or self._worker.get(key))
                 for key in ("key.converter", "value.converter")]
        kinds += [(Kind.TRANSFORMATION, self._connector.get(f"transforms.{alias}.type")) for alias in self.aliases]
        kinds += [(Kind.PREDICATE, name) for key, name in self._connector.items()
                  if key.startswith("predicates.") and key.endswith(".type")]
        found = (self._plugin(kind, name) for kind, name in kinds)
        return next((plugin for plugin in found if plugin is not None and is_java(plugin)), None)

    def predicates_are_near(self) -> bool:
        """Whether the connector's own runtime has all predicates, even unused ones."""
        names = parse_type("predicates", self._connector.get("predicates"), Type.LIST) or []
        found = (self._plugin(Kind.PREDICATE, self._connector.get(f"predicates.{name}.type")) for name in names)
        return all(plugin is None or self._sides(plugin)[1] for plugin in found)

    def _plugin(self, kind: Kind, name: str | None) -> Plugin | None:
        try:
            return None if name is None else self._plugins.get(kind, name)
        except (PluginNotFoundError, ConfigError):
            return None

    def _sides(self, plugin: Plugin) -> tuple[bool, bool]:
        """Whether the far side has it, and whether the near side has."""
        in_python = not is_java(plugin)
        in_java = not in_python or plugin.name.startswith(_KAFKAS) or self._plugins.is_in_jars(plugin)
        return (in_python, in_java) if self._java else (in_java, in_python)
