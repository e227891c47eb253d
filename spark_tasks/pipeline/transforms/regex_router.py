"""RegexRouter."""

from __future__ import annotations

import re
from collections.abc import Mapping

import pyarrow as pa
from typing_extensions import override

from spark_tasks.config.definition import ConfigDef, ConfigKey, Importance, Type
from spark_tasks.config.validators import ValidRegex
from spark_tasks.java.regex import compile_java
from spark_tasks.pipeline.converters.java_values import JavaError
from spark_tasks.pipeline.transforms.base import Transform
from spark_tasks.pipeline.transforms.topics import renamed, topic_matches

_NAMED = re.compile(r"\$\{([A-Za-z0-9]*)")


class RegexRouter(Transform):
    """Changes the topic of records whose whole topic name matches a pattern."""

    version = "4.3.1"
    config_def = ConfigDef(
        ConfigKey("regex", Type.STRING, importance=Importance.HIGH, validator=ValidRegex(),
                  doc="A Java regular expression."),
        ConfigKey("replacement", Type.STRING, importance=Importance.HIGH,
                  doc="The new name; $1 and ${name} are replaced by the text that a group of the expression matches."),
    )  # fmt: skip

    @override
    def configure(self, configs: Mapping[str, str]) -> None:
        values = self.config_def.parse(configs)
        self._pattern, self._replacement = compile_java(values["regex"]), values["replacement"]

    @override
    def apply(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        return renamed(batch, self._rename) if len(batch) else batch

    def _rename(self, topic: str) -> str:
        if not topic_matches(self._pattern, topic, "regex"):
            return topic
        match = self._pattern.search(topic)
        if match is None:
            return topic
        return topic[: match.start()] + expand(self._replacement, match) + topic[match.end() :]


def expand(template: str, match: re.Match[str]) -> str:
    """Expands a Java replacement: $1, ${name}, and a backslash before a literal character. Raises JavaError."""
    out, at = [], 0
    while at < len(template):
        char = template[at]
        if char == "\\":
            if at + 1 == len(template):
                raise JavaError("java.lang.IllegalArgumentException", "character to be escaped is missing")
            out.append(template[at + 1])
            at += 2
        elif char == "$":
            found, at = _group(template, at, match)
            out.append(found or "")
        else:
            out.append(char)
            at += 1
    return "".join(out)


def _group(template: str, at: int, match: re.Match[str]) -> tuple[str | None, int]:
    named = _NAMED.match(template, at)
    if named:
        return match[_name(named, match.re.groupindex)], named.end() + 1
    digits = template[at + 1 : at + 2]
    if not digits:
        raise JavaError("java.lang.IllegalArgumentException", "Illegal group reference: group index is missing")
    if not (digits.isascii() and digits.isdigit()):
        raise JavaError("java.lang.IllegalArgumentException", "Illegal group reference")
    number, at = int(digits), at + 2
    if number > match.re.groups:
        raise JavaError("java.lang.IndexOutOfBoundsException", f"No group {number}")
    while at < len(template) and template[at] in "0123456789" and number * 10 + int(template[at]) <= match.re.groups:
        number, at = number * 10 + int(template[at]), at + 1
    return match[number], at


def _name(named: re.Match[str], known: Mapping[str, int]) -> str:
    """Returns the name of a group in a replacement. Raises JavaError."""
    name = named[1]
    if not name:
        problem = "named capturing group has 0 length name"
    elif named.string[named.end() : named.end() + 1] != "}":
        problem = "named capturing group is missing trailing '}'"
    elif name[0].isdigit():
        problem = f"capturing group name {{{name}}} starts with digit character"
    elif name not in known:
        problem = f"No group with name {{{name}}}"
    else:
        return name
    raise JavaError("java.lang.IllegalArgumentException", problem)
