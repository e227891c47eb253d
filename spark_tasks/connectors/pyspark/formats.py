"""Finds PySpark's Python data sources, and creates them with their options."""

from __future__ import annotations

import difflib
import logging
from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql.datasource import CaseInsensitiveDict, DataSource

from spark_tasks.config.definition import ConfigDef, ConfigKey, Importance, NonEmpty, Type
from spark_tasks.data import ddl
from spark_tasks.errors import ConfigError
from spark_tasks.plugins.data_source_discovery import available
from spark_tasks.plugins.discovery import Found
from spark_tasks.plugins.registry import describe_error, resolve

_logger = logging.getLogger(__name__)
_WHERE = (
    "Spark's own formats, such as csv or jdbc, are not written in Python and cannot be used. The worker finds data "
    "sources when it starts, in the folders of plugin.path and in installed packages whose metadata mentions Spark. "
    "For any other data source, put a module with a class derived from it into a folder of plugin.path, or add an "
    "entry point in the group heeler.data_sources to its package"
)

FORMAT_KEYS = ConfigDef(
    ConfigKey(
        "format", Type.STRING, validator=NonEmpty(), importance=Importance.HIGH,
        doc="A Python data source of PySpark: its format name or the path of its class (package.module:Class). It is "
            "in a folder of plugin.path, or provided by an installed package.",
    ),
    ConfigKey(
        "schema", Type.STRING, default=None,
        doc="The columns as in Spark (id BIGINT, name STRING), if the data source needs a schema.",
    ),
)  # fmt: skip

_OPTION = "option."


def find(name: str) -> type[DataSource]:
    """Returns the class of a data source by its format name or its path. Imports only classes that were found as data
    sources. Raises ConfigError, whose message lists the known data sources.
    """
    found = {f.target: f for f in available() if _named(f, name)}
    if not found and not set(name) & set(".:"):  # the name of a class that computes it is known only after the import
        found = {f.target: f for f in available() if f.alias is None and _has_format(f, name)}
    if not found:
        raise _wrong(name, f"{_nearest(name)}. {_WHERE}")
    if len(found) > 1:
        raise _wrong(name, f"several data sources have this name: {', '.join(sorted(found))}; use the full path of one "
                           "of them")
    [one] = found.values()
    try:
        source = resolve(one)
    except Exception as error:  # the module is plugin code
        raise _wrong(name, f"{one.target} cannot be imported: {describe_error(error)}") from error
    if not issubclass(source, DataSource):
        raise _wrong(name, "it is not a PySpark DataSource")
    return source


def _named(found: Found, name: str) -> bool:
    """Returns whether `name` is the data source's format name, the path of its class, or the path by which a package
    exports it.
    """
    if name in (found.name, found.target) or name.lower() == (found.alias or "").lower():
        return True
    package, _, attribute = name.replace(":", ".").rpartition(".")
    module, _, of_class = found.target.partition(":")
    return attribute == of_class and package != "" and module.startswith(f"{package}.")


def _has_format(found: Found, name: str) -> bool:
    try:
        source: Any = resolve(found)
        return str(source.name()).lower() == name.lower()
    except Exception as error:  # noqa: BLE001 - code of another project, whose dependencies may be missing
        _logger.debug("Could not get the name of data source %s: %r", found.target, error)
        return False


def _nearest(name: str) -> str:
    known = sorted({f.alias or f.target for f in available()})
    near = difflib.get_close_matches(name, known, 1)
    hint = f"available: {', '.join(known)}" if known else "none are available"
    return f"no data source has this name; {f'did you mean {near[0]}? ' if near else ''}{hint}"


def _wrong(name: str, what: str) -> ConfigError:
    return ConfigError(f"Invalid value {name} for configuration format: {what}")


def has(kind: type[DataSource], *methods: str) -> bool:
    """Returns whether the class implements any of these methods of DataSource."""
    return any(getattr(kind, name) is not getattr(DataSource, name) for name in methods)


def problems(config: Mapping[str, str], *methods: str) -> Mapping[str, Sequence[str]]:
    """Returns errors by key: an unknown data source, one without any of `methods`, an invalid schema."""
    name, found = config["format"], dict[str, list[str]]()
    try:
        if not has(find(name), *methods):
            lacking = " and no ".join(methods)
            found["format"] = [f"Invalid value {name} for configuration format: it has no {lacking}"]
    except ConfigError as error:
        found["format"] = [str(error)]
    try:
        ddl.parse(config.get("schema") or "")
    except ConfigError as error:
        found["schema"] = [str(error)]
    return found


def make(options: Mapping[str, str]) -> DataSource:
    """Creates the data source of a task. `options`: the task's configuration, whose `schema` replaces the data
    source's. Raises ConfigError.
    """
    own = {k.removeprefix(_OPTION): v for k, v in options.items() if k.startswith(_OPTION)}
    source: Any = find(options["format"])(options=CaseInsensitiveDict(own))
    if options.get("schema"):
        schema = ddl.parse(options["schema"])
        source.schema = lambda: schema
    return source
