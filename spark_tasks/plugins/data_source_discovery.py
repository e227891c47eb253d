"""Finds PySpark's Python data sources, which a connector can use by their `format`. Reads metadata and source files,
but imports nothing.

A data source is a class with a base class whose name ends with DataSource. It is found in modules of the folders of
`plugin.path`, in distributions (installed, or in such a folder) whose metadata mentions Spark, and in modules named
`pyspark_…`, as PySpark does. Any other data source needs an entry point in the group `heeler.data_sources`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache
from importlib import metadata
from pathlib import Path
from pkgutil import iter_modules
from typing import Any

from spark_tasks.plugins import discovery
from spark_tasks.plugins.discovery import Found
from spark_tasks.plugins.kinds import Kind

in_folders: dict[Found, None] = {}
_CLASSPATH = "classpath"


def add(found: Iterable[Found]) -> None:
    """Adds the data sources among the plugins in the folders of `plugin.path` to the process's list."""
    in_folders.update(dict.fromkeys(f for f in found if f.kind is Kind.DATA_SOURCE))


def available() -> list[Found]:
    """Returns all data sources. Their `alias` is the format's name, if it is known without an import."""
    return [*in_folders, *installed()]


@cache
def installed() -> tuple[Found, ...]:
    """Returns the data sources on sys.path. Cached."""
    published = [f for f in discovery.installed() if f.kind is Kind.DATA_SOURCE]
    by_target = {f.target: f for f in (*_by_convention(), *_in_distributions())}
    return *published, *(f for target, f in by_target.items() if target not in {p.target for p in published})


def _in_distributions() -> Iterator[Found]:
    for distribution in metadata.distributions():
        yield from discovery.data_sources_of(distribution, _CLASSPATH)


def _by_convention() -> Iterator[Found]:
    for info in iter_modules():
        finder: Any = info.module_finder
        root = getattr(finder, "path", None)
        if root is None or not info.name.startswith("pyspark_"):
            continue
        files = sorted(Path(root, info.name).rglob("*.py")) if info.ispkg else [Path(root, f"{info.name}.py")]
        for file in files:
            yield from discovery.data_sources_in(file, file.relative_to(root), _CLASSPATH)
