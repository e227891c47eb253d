"""Finds PySpark's Python data sources, which a connector may name as a `format`. Reads metadata and source files, and
imports nothing.

A data source is found by a base class whose name ends with DataSource: in the folders of `plugin.path`, in installed
distributions whose metadata mentions Spark, and in modules called `pyspark_…`, where PySpark looks too. Any other needs
an entry point in the group `heeler.data_sources`.
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

_log = logging.getLogger(__name__)
in_folders: dict[Found, None] = {}
_NOT_THEIRS = ("heeler", "pyspark")


def add(found: Iterable[Found]) -> None:
    """Add those in the folders of `plugin.path`. A process has one list of them."""
    in_folders.update(dict.fromkeys(f for f in found if f.kind is Kind.DATA_SOURCE))


def offered() -> list[Found]:
    """All data sources. `alias`: the name of the format, if it is known without an import."""
    return [*in_folders, *installed()]


@cache
def installed() -> tuple[Found, ...]:
    """The data sources on sys.path, searched once."""
    published = [f for f in discovery.installed() if f.kind is Kind.DATA_SOURCE]
    found = {f.target: f for f in (*_by_convention(), *_in_distributions())}
    return *published, *(f for target, f in found.items() if target not in {p.target for p in published})


def _in_distributions() -> Iterator[Found]:
    for distribution in metadata.distributions():
        about = distribution.read_text("METADATA") or ""
        if "spark" not in about.lower() or distribution.metadata["Name"] in _NOT_THEIRS:
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
        _log.debug("%s cannot be read: %s", file, error)
        return
    found = discovery.in_source(file, inside, "classpath", _log.debug)
    yield from (f for f in found if f.kind is Kind.DATA_SOURCE)
