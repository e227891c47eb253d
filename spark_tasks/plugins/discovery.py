"""Where plugins are: entry points of installed distributions, and the folders of `plugin.path`. Imports no plugin.

A folder of `plugin.path` may be what `pip install --target` fills (its distributions' entry points count), or hold
plain modules and packages (their source is searched for classes derived from a plugin base), or hold such folders and
wheels one level down, as the plugin folders of Kafka Connect do.
"""

from __future__ import annotations

import ast
import logging
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from spark_tasks.plugins.kinds import Kind

_log = logging.getLogger(__name__)
Complain = Callable[[str], None]
_GROUPS = {kind.value: kind for kind in Kind}
_BASES = {  # the end of a base class's name says the kind; the longer names first
    "HeaderConverter": Kind.HEADER_CONVERTER,
    "Converter": Kind.CONVERTER,
    "Connector": Kind.CONNECTOR,
    "Transform": Kind.TRANSFORMATION,
    "Transformation": Kind.TRANSFORMATION,
    "Predicate": Kind.PREDICATE,
    "ConfigProvider": Kind.CONFIG_PROVIDER,
}


@dataclass(frozen=True, slots=True)
class Found:
    """A plugin that exists but is not imported. `target` is "module:attribute"."""

    name: str  # the class name to show: the entry point's if it has a dot, else the dotted path of the class
    kind: Kind
    target: str
    location: str
    alias: str | None = None  # an entry point's name without a dot


def installed() -> list[Found]:
    """The plugins of all distributions on sys.path."""
    return [
        found
        for group in _GROUPS
        for point in metadata.entry_points(group=group)
        if (found := _from_entry_point(point, "classpath"))
    ]


def in_folders(plugin_path: Iterable[str], complain: Complain) -> list[Found]:
    """The plugins of the folders, which are appended to sys.path. `complain` is told of folders and of modules that
    cannot be read.
    """
    return [
        found
        for folder in plugin_path
        for place in _places(Path(folder), complain)
        for found in _in_place(place, complain)
    ]


def _places(folder: Path, complain: Complain) -> Iterator[Path]:
    if not folder.is_dir():
        complain(f"plugin.path: {folder} is not a folder")
        return
    yield folder
    for child in sorted(folder.iterdir()):
        archive = child.suffix in (".whl", ".zip") and child.is_file()
        plain = child.is_dir() and child.name.isidentifier() and (child / "__init__.py").exists()
        hidden = child.name.startswith((".", "__")) or child.suffix in (".dist-info", ".egg-info")
        if archive or (child.is_dir() and not plain and not hidden):
            yield child


def _in_place(place: Path, complain: Complain) -> list[Found]:
    location = str(place)
    if location not in sys.path:
        sys.path.append(location)  # last: a plugin folder must not replace what heeler itself runs on
    claimed: set[str] = set()
    found: list[Found] = []
    for distribution in metadata.distributions(path=[location]):
        claimed.update(_top_level(distribution))
        points = [p for p in distribution.entry_points if p.group in _GROUPS]
        found += [f for p in points if (f := _from_entry_point(p, location))]
    if place.is_dir():
        for file in sorted(place.rglob("*.py")):
            inside = file.relative_to(place)
            if inside.parts[0].removesuffix(".py") not in claimed and _importable(place, inside):
                found += _in_source(file, inside, location, complain)
    return found


def _top_level(distribution: metadata.Distribution) -> set[str]:
    return {file.parts[0].removesuffix(".py") for file in distribution.files or ()}


def _importable(place: Path, inside: Path) -> bool:
    folders = [place.joinpath(*inside.parts[:n]) for n in range(1, len(inside.parts))]
    return all((folder / "__init__.py").exists() for folder in folders)


def _from_entry_point(point: metadata.EntryPoint, location: str) -> Found | None:
    module, _, attribute = point.value.partition(":")
    if not attribute:
        _log.warning("Entry point %s of %s names no class: %s", point.name, point.group, point.value)
        return None
    target = f"{module.strip()}:{attribute.partition('[')[0].strip()}"
    dotted = "." in point.name
    return Found(
        point.name if dotted else target.replace(":", "."), _GROUPS[point.group], target, location,
        None if dotted else point.name,
    )


def _in_source(file: Path, inside: Path, location: str, complain: Complain) -> list[Found]:
    try:
        tree = ast.parse(file.read_bytes(), file.name)
    except (SyntaxError, ValueError, OSError) as e:
        complain(f"plugin.path: {file} cannot be read: {e}")
        return []
    parts = inside.with_suffix("").parts
    module = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
    return [
        Found(f"{module}.{node.name}", kind, f"{module}:{node.name}", location)
        for node in tree.body
        if isinstance(node, ast.ClassDef | ast.FunctionDef)
        and not node.name.startswith("_")
        and (kind := _kind_of(node))
    ]


def _kind_of(node: ast.ClassDef | ast.FunctionDef) -> Kind | None:
    if isinstance(node, ast.FunctionDef):
        decorators = [d.func if isinstance(d, ast.Call) else d for d in node.decorator_list]
        is_source = any(getattr(d, "attr", getattr(d, "id", "")) == "source" for d in decorators)
        return Kind.CONNECTOR if is_source else None
    for base in node.bases:
        name = base.attr if isinstance(base, ast.Attribute) else base.id if isinstance(base, ast.Name) else ""
        for ending, kind in _BASES.items():
            if name.endswith(ending):
                return kind
    return None
