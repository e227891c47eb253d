"""Finding PySpark Python data sources, and giving them the options that are theirs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from inspect import isclass
from operator import attrgetter
from pkgutil import iter_modules
from typing import Any

from pyspark.sql.datasource import CaseInsensitiveDict, DataSource

from spark_tasks import ddl
from spark_tasks.config_def import ConfigDef, ConfigKey, Importance, NonEmpty, Type
from spark_tasks.errors import ConfigError

FORMAT_KEYS = ConfigDef(
    ConfigKey(
        "format", Type.STRING, validator=NonEmpty(), importance=Importance.HIGH,
        doc="A Python data source of PySpark: the path of its class (package.module:Class), or its format name where "
            "an installed package offers it as PySpark finds it (pyspark_<name> with a DefaultSource).",
    ),
    ConfigKey(
        "schema", Type.STRING, default=None,
        doc="The columns, as Spark writes them (id BIGINT, name STRING), where the data source needs to be told.",
    ),
)  # fmt: skip

_OPTION = "option."


def find(name: str) -> type[DataSource]:
    """The class by its path or its format name. ConfigError says what was looked for."""
    module, _, attribute = name.partition(":") if ":" in name else name.rpartition(".")
    if module and attribute:
        try:
            found = attrgetter(attribute)(import_module(module))
        except (ImportError, AttributeError) as error:
            raise ConfigError(f"Invalid value {name} for configuration format: {error}") from error
        if not (isinstance(found, type) and issubclass(found, DataSource)):
            raise ConfigError(f"Invalid value {name} for configuration format: it is no PySpark DataSource")
        source: type[DataSource] = found
        return source
    offered = _offered()
    if name not in offered:
        raise ConfigError(
            f"Invalid value {name} for configuration format: no installed package pyspark_… offers it (there are: "
            f"{', '.join(sorted(offered)) or 'none'}); give the path of its class, package.module:Class"
        )
    return offered[name]


def has(kind: type[DataSource], *methods: str) -> bool:
    """Whether it has one of these methods of a DataSource."""
    return any(getattr(kind, name) is not getattr(DataSource, name) for name in methods)


def problems(config: Mapping[str, str], *methods: str) -> Mapping[str, Sequence[str]]:
    """What is wrong, by key: there is no such data source, it has none of these methods, the schema cannot be read."""
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


def _offered() -> dict[str, type[DataSource]]:
    """What PySpark itself would register: DefaultSource in top-level modules whose names begin with pyspark_."""
    found: dict[str, type[Any]] = {}
    for info in iter_modules():
        if info.name.startswith("pyspark_"):
            source: Any = getattr(import_module(info.name), "DefaultSource", None)
            if isclass(source) and issubclass(source, DataSource):
                found[str(source.name())] = source  # type: ignore[attr-defined]  # PySpark has no types
    return found


def make(options: Mapping[str, str]) -> DataSource:
    """The data source of a task's configuration; `schema` overrides its own."""
    own = {k.removeprefix(_OPTION): v for k, v in options.items() if k.startswith(_OPTION)}
    source: Any = find(options["format"])(options=CaseInsensitiveDict(own))
    if options.get("schema"):
        schema = ddl.parse(options["schema"])
        source.schema = lambda: schema
    return source
