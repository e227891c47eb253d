"""The parsed settings of a `files` source."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema

from spark_tasks.config.definition import Type
from spark_tasks.config.types import parse_type
from spark_tasks.data import ddl
from spark_tasks.errors import ConfigError
from spark_tasks.plugins.api import Options


class FileFormat(Enum):
    """The format of a file."""

    CSV = "csv"
    JSON = "json"
    PARQUET = "parquet"


_ENDINGS = {
    ".csv": FileFormat.CSV, ".tsv": FileFormat.CSV, ".txt": FileFormat.CSV,
    ".json": FileFormat.JSON, ".jsonl": FileFormat.JSON, ".ndjson": FileFormat.JSON,
    ".parquet": FileFormat.PARQUET,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class FilesSettings:
    """A task's configuration. `format`: None means auto. `columns`: names and Arrow types, or None to infer them.
    `nulls`: unquoted values that mean null. `wait_ms`: last.line.wait.ms. `parallel`: files.parallel.
    """

    path: str
    topic: str
    format: FileFormat | None
    pattern: str
    recursive: bool
    columns: tuple[tuple[str, pa.DataType], ...] | None
    delimiter: str
    quote: str
    header: bool
    nulls: tuple[str, ...]
    multiline: bool
    wait_ms: int
    parallel: int

    @classmethod
    def of(cls, parsed: Mapping[str, Any], config: Options) -> FilesSettings:
        """Returns the settings for values parsed by FilesSourceConnector.config_def from the configuration. Raises
        ConfigError if the schema, the delimiter or the quote is invalid.
        """
        return cls(
            path=parsed["path"],
            topic=parsed["topic"],
            format=None if parsed["format"] == "auto" else FileFormat(parsed["format"]),
            pattern=parsed["pattern"],
            recursive=parsed["recursive"],
            columns=_columns(parsed["schema"]),
            delimiter=_character(config, "csv.delimiter", parsed["csv.delimiter"]),
            quote=_character(config, "csv.quote", parsed["csv.quote"]),
            header=parsed["csv.header"],
            nulls=tuple(parsed["csv.null.values"]),
            multiline=parsed["csv.multiline"],
            wait_ms=parsed["last.line.wait.ms"],
            parallel=parsed["files.parallel"],
        )

    @staticmethod
    def problems(config: Options) -> Mapping[str, Sequence[str]]:
        """Returns errors by key that a ConfigDef cannot find."""
        errors: dict[str, list[str]] = {}
        characters = []
        for key, default in (("csv.delimiter", ","), ("csv.quote", '"')):
            try:
                characters.append(_character(config, key, default))
            except ConfigError as error:
                errors[key] = [str(error)]
        if len(characters) > len(set(characters)):
            errors["csv.quote"] = ["csv.quote and csv.delimiter must be different characters"]
        header, kind, schema = (_text(config, key) for key in ("csv.header", "format", "schema"))
        try:
            _columns(schema)
        except ConfigError as error:
            errors["schema"] = [str(error)]
        if header.lower() == "false" and kind == "csv" and not schema:
            errors["schema"] = ["Files without a header need a schema, which names the columns"]
        return errors

    def format_of(self, path: Path) -> FileFormat | None:
        """Returns the format of a file, or None if it is unknown."""
        return self.format or _ENDINGS.get(path.suffix.lower())


def _text(config: Options, key: str) -> str:
    return parse_type(key, config.get(key), Type.STRING) or ""


def _character(config: Options, key: str, default: str) -> str:
    """Returns a character that a setting names. It may be a tab or a blank, which a parsed value does not have."""
    given = config.get(key)
    if given is None:
        return default
    found = given if len(given) == 1 else _text(config, key).replace("\\t", "\t")
    if len(found) != 1 or not found.isascii() or found in "\r\n":
        raise ConfigError(f"Invalid value {given} for configuration {key}: it must be a single ASCII "
                          "character other than a line end")
    return found


def _columns(schema: str | None) -> tuple[tuple[str, pa.DataType], ...] | None:
    if not schema:
        return None
    found = tuple((field.name, field.type) for field in to_arrow_schema(ddl.parse(schema), timezone="UTC"))
    counts = Counter(name for name, _ in found)
    if doubled := [name for name, count in counts.items() if count > 1]:
        raise ConfigError(f"Invalid value {schema} for configuration schema: it has several columns named {doubled[0]}")
    if nested := [name for name, kind in found if pa.types.is_nested(kind)]:
        raise ConfigError(f"Invalid value {schema} for configuration schema: CSV files have no values of the type of "
                          f"{nested[0]}")
    return found
