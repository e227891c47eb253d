"""Finds PySpark's Python data sources, which a connector can use by their `format`. Reads metadata and source files,
but imports nothing.

A data source is a class with a base class whose name ends with DataSource. It is found in the folders of `plugin.path`,
in installed distributions whose metadata mentions Spark, and in modules named `pyspark_…`, as PySpark does. Any other
data source needs an entry point in the group `heeler.data_sources`.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from functools import cache
from importlib import metadata
from pathlib import Path
from pkgutil import iter_modules
from typing import Any

from spark_tasks.plugins import discovery
from spark_tasks.plugins.discovery import Found
from spark_tasks.plugins.kinds import Kind

_logger = logging.getLogger(__name__)
in_folders: dict[Found, None] = {}
_EXCLUDED = ("heeler", "pyspark")  # distributions


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
        about = distribution.read_text("METADATA") or ""
        if "spark" not in about.lower() or distribution.metadata["Name"] in _EXCLUDED:
            continue
        for file in distribution.files or ():
            if file.suffix == ".py" and ".." not in file.parts:
                yield from _in_file(Path(str(file.locate())), Path(file))


def _by_convention() -> Iterator[Found]:
    for info in iter_modules():
        finder: Any = info.module_finder
        root = getattr(finder, "path", None)
        if root is None or not info.name.startswith("pyspark_"):
            continue
        files = sorted(Path(root, info.name).rglob("*.py")) if info.ispkg else [Path(root, f"{info.name}.py")]
        for file in files:
            yield from _in_file(file, file.relative_to(root))


def _in_file(file: Path, inside: Path) -> Iterator[Found]:
    try:
        if b"DataSource" not in file.read_bytes():
            return
    except OSError as error:
        _logger.debug("Could not read %s: %s", file, error)
        return
    found = discovery.in_source(file, inside, "classpath", _logger.debug)
    yield from (f for f in found if f.kind is Kind.DATA_SOURCE)
