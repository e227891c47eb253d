"""Finds plugins in the entry points of installed distributions and in the folders of `plugin.path`. Imports no plugin.

A folder of `plugin.path` may be a target of `pip install --target` (with entry points of its distributions), or contain
modules and packages (whose source is searched for classes with a plugin's base class), or contain such folders and
wheels as children, like the plugin folders of Kafka Connect.
"""

from __future__ import annotations

import ast
import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import TypeVar

from spark_tasks import spaces
from spark_tasks.plugins.kinds import Kind

_logger = logging.getLogger(__name__)
Complain = Callable[[str], None]
T = TypeVar("T")
_GROUPS = {kind.value: kind for kind in Kind}
_BASES = {  # the end of a base class's name -> the kind; the first match counts
    "HeaderConverter": Kind.HEADER_CONVERTER,
    "Converter": Kind.CONVERTER,
    "Connector": Kind.CONNECTOR,
    "Transform": Kind.TRANSFORMATION,
    "Transformation": Kind.TRANSFORMATION,
    "Predicate": Kind.PREDICATE,
    "ConfigProvider": Kind.CONFIG_PROVIDER,
    "DataSource": Kind.DATA_SOURCE,
}
_NO_DATA_SOURCES = ("heeler", "pyspark")  # distributions
_DECORATORS = {"source": Kind.CONNECTOR, "transform": Kind.TRANSFORMATION}
Definition = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef  # the last is a mistake, which is reported


@dataclass(frozen=True, slots=True)
class Found:
    """A plugin that is not imported yet. `target`: "module:attribute"."""

    name: str  # the class name to show: the entry point's name if it has a dot, else the dotted path of the class
    kind: Kind
    target: str
    location: str
    alias: str | None = None  # an entry point's name without a dot
    place: str | None = None  # the folder or wheel in whose module space it is imported; None if it is installed


@cache
def installed() -> tuple[Found, ...]:
    """Returns the plugins of all distributions on sys.path. Cached."""
    points = metadata.entry_points()
    return tuple(
        found
        for group in _GROUPS
        for point in points.select(group=group)
        if (found := _from_entry_point(point, "classpath"))
    )


def in_folders(plugin_path: Iterable[str], complain: Complain) -> list[Found]:
    """Returns the plugins in the folders. Calls `complain` with a message for each folder or module that cannot be
    read.
    """
    return [
        found
        for folder in map(Path, plugin_path)
        for place in _tolerant(str(folder), complain, _places(folder, complain))
        for found in _tolerant(str(place), complain, _in_place(place, complain))
    ]


def _tolerant(what: str, complain: Complain, found: Iterator[T]) -> Iterator[T]:
    """Yields what a search finds until it fails, and then calls `complain`: one odd file hides no other plugins."""
    try:
        yield from found
    except Exception as error:  # noqa: BLE001 - importlib.metadata and ast raise many kinds
        complain(f"plugin.path: could not read {what}: {str(error) or type(error).__name__}")


def _places(folder: Path, complain: Complain) -> Iterator[Path]:
    if folder.suffix == ".jar" and folder.is_file():
        return  # a Java plugin
    if not folder.is_dir():
        complain(f"plugin.path: {folder} is not a folder")
        return
    children = sorted(folder.iterdir())
    yield folder
    for child in children:
        yield from _tolerant(str(child), complain, _place_in(child))


def _place_in(child: Path) -> Iterator[Path]:
    archive = child.suffix in (".whl", ".zip") and child.is_file()
    plain = child.is_dir() and child.name.isidentifier() and (child / "__init__.py").exists()
    hidden = child.name.startswith((".", "__")) or child.suffix in (".dist-info", ".egg-info")
    if archive or (child.is_dir() and not plain and not hidden):
        yield child


def _in_place(place: Path, complain: Complain) -> Iterator[Found]:
    absolute = str(place.absolute())
    if unused := ", ".join(spaces.of(absolute).unused()):
        _logger.info("plugin.path: %s has modules that a process can load only once (Python's own, heeler's, and "
                     "compiled ones that are installed with heeler). The installed ones are used instead: %s",
                     place, unused)
    claimed: set[str] = set()
    for distribution in metadata.distributions(path=[str(place)]):
        what = f"the metadata of {_name_of(distribution)} in {place}"
        for found in _tolerant(what, complain, _in_distribution(distribution, str(place), claimed)):
            yield replace(found, place=absolute)
    for file in sorted(place.rglob("*.py")) if place.is_dir() else ():
        for found in _tolerant(str(file), complain, _in_file(place, file, claimed, complain)):
            yield replace(found, place=absolute)


def _name_of(distribution: metadata.Distribution) -> str:
    try:
        return str(distribution.metadata["Name"])
    except Exception:  # noqa: BLE001 - as in _tolerant
        return "a distribution"


def _in_distribution(distribution: metadata.Distribution, location: str, claimed: set[str]) -> Iterator[Found]:
    claimed.update(_top_level(distribution))
    points = [p for p in distribution.entry_points if p.group in _GROUPS]
    published = [f for p in points if (f := _from_entry_point(p, location))]
    targets = {f.target for f in published}
    yield from published
    yield from (f for f in data_sources_of(distribution, location) if f.target not in targets)


def _in_file(place: Path, file: Path, claimed: Collection[str], complain: Complain) -> Iterator[Found]:
    inside = file.relative_to(place)
    if inside.parts[0].removesuffix(".py") not in claimed and _importable(place, inside):
        yield from in_source(file, inside, str(place), complain)


def data_sources_of(distribution: metadata.Distribution, location: str) -> Iterator[Found]:
    """Yields the data sources in the files of a distribution whose metadata mentions Spark."""
    about = distribution.read_text("METADATA") or ""
    if "spark" not in about.lower() or distribution.metadata["Name"] in _NO_DATA_SOURCES:
        return
    for file in distribution.files or ():
        if file.suffix == ".py" and ".." not in file.parts:
            yield from data_sources_in(Path(str(file.locate())), Path(file), location)


def data_sources_in(file: Path, inside: Path, location: str) -> Iterator[Found]:
    """Yields the data sources that a Python file of a package defines. `inside`: as for `in_source`."""
    try:
        if b"DataSource" not in file.read_bytes():
            return
    except OSError as error:
        _logger.debug("Could not read %s: %s", file, error)
        return
    yield from (f for f in in_source(file, inside, location, _logger.debug) if f.kind is Kind.DATA_SOURCE)


def _top_level(distribution: metadata.Distribution) -> set[str]:
    return {file.parts[0].removesuffix(".py") for file in distribution.files or ()}


def _importable(place: Path, inside: Path) -> bool:
    folders = [place.joinpath(*inside.parts[:n]) for n in range(1, len(inside.parts))]
    return all((folder / "__init__.py").exists() for folder in folders)


def _from_entry_point(point: metadata.EntryPoint, location: str) -> Found | None:
    module, _, attribute = point.value.partition(":")
    if not attribute:
        _logger.warning("Entry point %s of %s does not name a class: %s", point.name, point.group, point.value)
        return None
    target = f"{module.strip()}:{attribute.partition('[')[0].strip()}"
    dotted = "." in point.name
    return Found(
        point.name if dotted else target.replace(":", "."), _GROUPS[point.group], target, location,
        None if dotted else point.name,
    )


def in_source(file: Path, inside: Path, location: str, complain: Complain) -> list[Found]:
    """Returns the plugins that a Python file defines. `inside`: its path relative to the folder on the import path."""
    try:
        tree = ast.parse(file.read_bytes(), file.name)
    except (SyntaxError, ValueError, OSError, RecursionError, MemoryError) as e:  # the last two: too deep for Python
        complain(f"plugin.path: could not read {file}: {str(e) or type(e).__name__}")
        return []
    parts = inside.with_suffix("").parts
    module = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
    kinds: dict[str, Kind] = {}
    found = []
    for node in tree.body:
        if not isinstance(node, Definition) or (kind := _kind_of(node, kinds)) is None:
            continue
        name = node.name
        kinds[name] = kind
        if not name.startswith("_"):
            found.append(Found(f"{module}.{name}", kind, f"{module}:{name}", location, _format_of(node, kind)))
    return found


def _format_of(node: Definition, kind: Kind) -> str | None:
    """Returns the format's name of a data source if its method `name` returns a literal, else None."""
    if kind is not Kind.DATA_SOURCE:
        return None
    methods = [m for m in node.body if isinstance(m, ast.FunctionDef) and m.name == "name"]
    match [statement for method in methods for statement in method.body if not isinstance(statement, ast.Expr)]:
        case [ast.Return(ast.Constant(str(name)))]:
            return name
        case _:
            return None


def _kind_of(node: Definition, known: Mapping[str, Kind]) -> Kind | None:
    """Returns the kind of plugin according to the names of its base classes or decorators, or None. `known`: the kinds
    of the preceding classes in the file.
    """
    if not isinstance(node, ast.ClassDef):
        decorators = [d.func if isinstance(d, ast.Call) else d for d in node.decorator_list]
        names = (getattr(d, "attr", getattr(d, "id", "")) for d in decorators)
        return next((_DECORATORS[name] for name in names if name in _DECORATORS), None)
    for base in node.bases:
        name = base.attr if isinstance(base, ast.Attribute) else base.id if isinstance(base, ast.Name) else ""
        if name in known:
            return known[name]
        for ending, kind in _BASES.items():
            if name.endswith(ending):
                return kind
    return None
