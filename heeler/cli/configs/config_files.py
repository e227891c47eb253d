"""Reads connectors from JSON, YAML and properties files. Whatever a file contains, the result is its connectors or an
error that names the file.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NoReturn

import yaml
from typing_extensions import override

from heeler.cli.configs.masks import secrets_of
from heeler.cli.console.safe_text import safe
from heeler.errors import SetupError
from spark_tasks.config.masking import MASK, process_secrets
from spark_tasks.errors import json_kind

ENDINGS: Final = (".json", ".yaml", ".yml", ".properties")
LARGEST: Final = 4 * 1024 * 1024  # bytes of one file
_STATES: Final = ("RUNNING", "PAUSED", "STOPPED")
_ALSO: Final = {"name", "config", "initial_state", "tasks", "type"}  # the last two, of GET's response, are ignored
_SPACE: Final = " \t\n\r\x0b\x0c"  # what a worker removes around a name; other spaces are part of it
_MAX_ENTRIES: Final = 10_000  # entries of a YAML mapping with all that it merges
_MAX_MERGED: Final = 500_000  # entries that all mappings of a YAML file merge
_MERGE: Final = "tag:yaml.org,2002:merge"


class ConfigFileError(SetupError):
    """A file contains no connector, or an invalid one. The message has a line for each problem."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """A connector as defined in a file. `initial_state` is for a new one."""

    name: str
    config: Mapping[str, str]
    file: str
    initial_state: str | None = None


def read_connectors(paths: Iterable[Path]) -> list[Wanted]:
    """The connectors of all files, and of all files in folders and their subfolders, in the order of their names.

    Their secrets are hidden in errors from now on. Raises ConfigFileError with the errors of all files, so that no
    command is half done.
    """
    connectors: list[Wanted] = []
    wrong: list[str] = []
    for path in paths:
        try:
            files = _files(path) if path.is_dir() else [path]
        except OSError as error:
            wrong.append(f"{error.filename}: {error.strerror}")
            continue
        if not files:
            wrong.append(f"{path}: no file in it ends with {', '.join(ENDINGS)}")
        for file in files:
            try:
                connectors += parse_connectors(_text(file), file.suffix.lower(), file.stem, str(file))
            except ConfigFileError as error:
                wrong.append(str(error))
    first: dict[str, str] = {}
    for wanted in connectors:
        if wanted.name in first:
            wrong.append(f"{wanted.file}: connector {safe(wanted.name)} is also defined in {first[wanted.name]}")
        first.setdefault(wanted.name, wanted.file)
        wrong += [f"{wanted.file}: connector {safe(wanted.name)}: {safe(key)} has {MASK} in place of a secret. Write "
                  "the secret (heeler connectors show --show-secrets), or a placeholder of a config provider"
                  for key in _hidden(wanted.config)]
        process_secrets().add(wanted.name, secrets_of(wanted.config))
    if wrong:
        raise ConfigFileError("\n".join(wrong))
    return connectors


def parse_connectors(text: str, ending: str, stem: str, file: str) -> list[Wanted]:
    """The connectors in the text of one file, by its ending. A connector without a name gets the file's: `stem`.

    A connector is an object as POST /connectors takes it (name, config, initial_state), or its config alone; JSON may
    have a list of them, YAML also several documents. Numbers and booleans are kept as they are written.
    """
    try:
        connectors = [_wanted(item, stem, file) for item in _items(text, ending)]
    except (ValueError, RecursionError, yaml.YAMLError) as error:
        raise ConfigFileError(f"{file}: {why_unreadable(error)}") from error
    if not connectors:
        raise ConfigFileError(f"{file}: it contains no connector")
    return connectors


def why_unreadable(error: Exception) -> str:
    """The reason of an error of the YAML library, with the place as in errors of JSON; of other errors, their text."""
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    if isinstance(error, yaml.MarkedYAMLError) and error.problem is not None and error.problem_mark is not None:
        where = f"line {error.problem_mark.line + 1} column {error.problem_mark.column + 1}"
        return safe(f"it is not valid YAML: {error.problem}: {where}")
    if isinstance(error, yaml.YAMLError):
        return safe(f"it is not valid YAML: {str(error).partition(chr(10))[0]}")
    return safe(" ".join(str(error).split()))


def _hidden(config: Mapping[str, str]) -> list[str]:
    """The keys whose secrets are hidden, because the file was made from what was shown, in a text or by a worker."""
    return [key for key, value in config.items()
            if value == MASK or any(MASK in secret for secret in secrets_of({key: value}))]


def _files(folder: Path) -> list[Path]:
    """The files of a folder and its subfolders, which may be symbolic links, as in Kubernetes' volumes. Raises OSError
    if one cannot be read: its connectors would look as if they were in no file, and --prune would delete them.
    """
    def fail(error: OSError) -> NoReturn:
        raise error

    found: list[Path] = []
    seen: set[str] = set()
    for at, folders, names in os.walk(folder, onerror=fail, followlinks=True):
        real = os.path.realpath(at)
        folders[:] = [] if real in seen else sorted(name for name in folders if not name.startswith("."))
        files = [] if real in seen else [Path(at, name) for name in names if not name.startswith(".")]
        seen.add(real)
        found += [file for file in files if file.suffix.lower() in ENDINGS and not _is_special(file)]
    return sorted(found)


def _is_special(file: Path) -> bool:
    """Whether it is a pipe, a socket or a device. A link without a target counts as a file: reading it is an error."""
    return os.path.exists(file) and not os.path.isfile(file)  # noqa: PTH110, PTH113 - Path's may raise OSError


def _text(file: Path) -> str:
    try:
        with file.open("rb") as opened:
            data = opened.read(LARGEST + 1)
    except OSError as error:
        raise ConfigFileError(f"{file}: {error.strerror}") from error
    if len(data) > LARGEST:
        raise ConfigFileError(f"{file} exceeds {LARGEST // 2**20} MiB, the limit for a connector's configuration")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        if file.suffix.lower() == ".properties":  # Java reads these files as Latin-1
            return data.decode("latin-1")
        raise ConfigFileError(f"{file}: not UTF-8 at byte {error.start}") from error


def _items(text: str, ending: str) -> list[Any]:
    if ending == ".properties":
        import javaproperties

        return [javaproperties.loads(text)]
    if ending == ".json":
        try:
            documents = [json.loads(text, object_pairs_hook=_once_each, parse_int=str, parse_float=str,
                                    parse_constant=_no_constant)]
        except json.JSONDecodeError as error:
            raise ValueError(f"it is not valid JSON: {error}") from error
    elif ending in (".yaml", ".yml"):
        documents = [d for d in yaml.load_all(text, _Loader) if d is not None]
    else:
        raise ValueError(f"its name must end with one of {', '.join(ENDINGS)}")
    return [item for document in documents for item in (document if isinstance(document, list) else [document])]


def _wanted(item: Any, stem: str, file: str) -> Wanted:
    if not isinstance(item, dict):
        raise ValueError(f"a connector must be an object with keys and values, not {json_kind(item)}")  # noqa: TRY004
    wrapped = isinstance(item.get("config"), dict)
    others = sorted(map(str, item.keys() - _ALSO)) if wrapped else []
    if others:
        raise ValueError(f"unknown key {others[0]} next to the config")
    config = {_a_key(key): _value(key, value) for key, value in (item["config"] if wrapped else item).items()}
    given = item.get("name") if wrapped else None
    if given is not None and not isinstance(given, str):
        raise ValueError(f"the name must be a string, not {json_kind(given)}")
    name = (given or config.get("name") or stem).strip(_SPACE)
    if not name:
        raise ValueError("the connector has no name")
    if config.get("name", name).strip(_SPACE) != name:
        raise ValueError(f"the connector's name is {name}, but {config['name']} in its config")
    if "connector.class" not in config:
        raise ValueError(f"connector {name} has no connector.class")
    state = item.get("initial_state") if wrapped else None
    if state is not None and (not isinstance(state, str) or state.upper() not in _STATES):
        raise ValueError(f"initial_state must be one of {', '.join(_STATES)}")
    text = [name, *config, *config.values()]
    if any("\ud800" <= c <= "\udfff" for part in text for c in part):
        raise ValueError("it contains an unpaired surrogate")
    return Wanted(name, {**config, "name": name}, file, state and state.upper())


def _a_key(key: Any) -> str:
    if not isinstance(key, str):
        raise ValueError(f"a key must be a string, not {json_kind(key)}")  # noqa: TRY004
    return key


def _value(key: Any, value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if not isinstance(value, str):
        raise ValueError(f"the value of {key} must be a string, a number or a boolean, not {json_kind(value)}")  # noqa: TRY004
    return value


def _once_each(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value_by_key: dict[str, Any] = {}
    for key, value in pairs:
        if key in value_by_key:
            raise ValueError(f"key {key} appears twice")
        value_by_key[key] = value
    return value_by_key


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


class _Loader(yaml.SafeLoader):
    """Scalars are taken as they are written, except for null: on is "on", 010 and !!int 010 are "010"."""

    yaml_implicit_resolvers = {  # noqa: RUF012 - the library's way
        first: [r for r in resolvers if r[0] in (_MERGE, "tag:yaml.org,2002:null")]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }
    yaml_constructors = {  # noqa: RUF012
        **yaml.SafeLoader.yaml_constructors,
        **{f"tag:yaml.org,2002:{kind}": yaml.SafeLoader.construct_yaml_str
           for kind in ("bool", "int", "float", "timestamp")},
    }

    merged = 0  # entries of mappings that were merged into others

    @override
    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        """Merge keys (<<), up to limits: a few lines could ask for billions of entries."""
        if getattr(node, "flat", False):  # merged keys may occur twice in it
            return
        own = [key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode) and key.value != "<<"]
        twice = next((key for n, key in enumerate(own) if key in own[:n]), None) if len(own) > len(set(own)) else None
        if twice is not None:
            raise ValueError(f"key {twice} appears twice")
        entries = len(node.value)
        for part in _merged_into(node):
            self.flatten_mapping(part)
            entries += len(part.value)
            self.merged += len(part.value)
            if entries > _MAX_ENTRIES or self.merged > _MAX_MERGED:
                break
        if entries > _MAX_ENTRIES:
            raise ValueError(f"more than {_MAX_ENTRIES} entries in one mapping")
        if self.merged > _MAX_MERGED:
            raise ValueError(f"merge keys (<<) with more than {_MAX_MERGED} entries")
        super().flatten_mapping(node)
        node.flat = True  # type: ignore[attr-defined]


def _merged_into(node: yaml.MappingNode) -> Iterator[yaml.MappingNode]:
    for key, value in node.value:
        if key.tag == _MERGE:
            parts = value.value if isinstance(value, yaml.SequenceNode) else [value]
            yield from (part for part in parts if isinstance(part, yaml.MappingNode))
