"""Advice for messages about a plugin that does not exist."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import Final

from spark_tasks.plugins.discovery import Found
from spark_tasks.plugins.java_classes import JARS, instead
from spark_tasks.plugins.kinds import Kind

_MAX_SUGGESTIONS = 3
_BY_JARS = (" Its jars run unchanged: put their folder into a folder of plugin.path (heeler plugins install "
            "GROUP:ARTIFACT:VERSION --plugin-path FOLDER).")
READ_AT_START: Final = (
    "The worker finds plugins when it starts, in installed packages and the folders of plugin.path: restart the worker "
    "if this one was installed later."
)
"""Where a worker finds plugins, and when."""


def advice(kind: Kind, name: str, found: Sequence[Found], where_found: str = READ_AT_START) -> str:
    """Returns lines that suggest a plugin of another kind, heeler's counterpart of a Java class, or similar names, and
    that end with `where_found`: where plugins are looked for. `found`: all plugins.
    """
    others = [f for f in found if f.kind is not kind and name and name in _names(f)]
    lines = [f"{others[0].name} is a {others[0].kind.interface}, not a {kind.interface}."] if others else []
    java = None if others else instead(kind, name)
    if java is not None:
        _, remedy = java
        lines.append(f"{name} of Java Kafka Connect is not built in{f': {remedy}' if remedy else ''}.")
        if kind in JARS and not remedy.startswith("use "):
            lines[-1] += _BY_JARS
    elif near := nearest(kind, name, found):
        lines.append(f"Did you mean {' or '.join(near)}?")
    return "\n".join([*lines, where_found])


def nearest(kind: Kind, name: str, found: Sequence[Found]) -> list[str]:
    """Returns names of plugins of this kind that are similar to `name`: at most three, one for each plugin. They are
    short, except for nested classes, which have no short names in Kafka Connect.
    """
    known = {text.lower(): (f.name, f.name if "$" in text else text)
             for f in found if f.kind is kind for text in _names(f)[1:] if text}  # fmt: skip
    wanted = name.replace(":", ".").rpartition(".")[2].lower()
    exact = [wanted] if "$" in wanted and wanted in known else []
    nested = sorted((text for text in known if text.startswith(f"{wanted}$")), reverse=True)  # $Value before $Key
    close = difflib.get_close_matches(wanted, list(known), 2 * _MAX_SUGGESTIONS, 0.75)
    plugins: dict[str, str] = {}
    for text in exact or nested or close:
        plugin, usable = known[text]
        plugins.setdefault(plugin, usable)
    return list(plugins.values())[:_MAX_SUGGESTIONS]


def _names(found: Found) -> tuple[str, ...]:
    simple = found.name.rpartition(".")[2]
    return found.name, simple, simple.removesuffix(found.kind.interface), found.alias or ""
