"""Whether records fit a JSON Schema that is not made from their own schema (latest.compatibility.strict). Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from spark_tasks.errors import DataError
from spark_tasks.pipeline.converters.json_schema.documents import Documents, Scope, parse
from spark_tasks.registry.errors import UnusableSchemaError

_COMBINED = ("oneOf", "anyOf", "allOf", "not", "if", "enum", "const")
_DEEPEST = 50


def check_fits(mine: str, theirs: str, references: Mapping[str, str]) -> None:
    """Raises UnusableSchemaError if no record of the schema `mine` can match `theirs`: a member has another type, is
    not allowed, or is required but not there. Combined schemas are not compared. `references`: the texts of the schemas
    that `theirs` uses, by name.
    """
    root = parse(theirs)
    documents = Documents(root, {name: parse(text) for name, text in references.items()})
    _Comparison(documents).check(parse(mine), root, documents.root, "", 0)


class _Comparison:
    def __init__(self, documents: Documents) -> None:
        self._documents = documents

    def check(self, mine: Any, theirs: Any, scope: Scope, place: str, depth: int) -> None:
        theirs, scope = self._resolved(theirs, scope)
        if depth > _DEEPEST or not _comparable(mine) or not _comparable(theirs):
            return
        own, wanted = _types(mine), _types(theirs)
        if own and wanted and not own & wanted:
            raise _unfit(f"has the type {_shown(wanted)} for {place or 'records'}, which the records have as "
                         f"{_shown(own)}")
        members, known = _members(mine), _members(theirs)
        for name in _required(theirs):
            if name not in members:
                raise _unfit(f"requires {_path(place, name)}, which the records do not have")
        for name, member in members.items():
            if name in known:
                self.check(member, known[name], scope, _path(place, name), depth + 1)
            elif theirs.get("additionalProperties") is False:
                raise _unfit(f"has no field {_path(place, name)}, which the records have, and allows no others")
        if "items" in mine and "items" in theirs:
            self.check(mine["items"], theirs["items"], scope, f"{place}[]", depth + 1)

    def _resolved(self, schema: Any, scope: Scope) -> tuple[Any, Scope]:
        """Follows references. Returns None as the schema if one cannot be found; then nothing is compared."""
        for _ in range(_DEEPEST):
            scope = self._documents.within(schema, scope)
            if not isinstance(schema, Mapping) or "$ref" not in schema:
                return schema, scope
            try:
                schema, scope = self._documents.target(str(schema["$ref"]), scope)
            except DataError:
                break
        return None, scope


def _comparable(schema: Any) -> bool:
    return isinstance(schema, Mapping) and not any(key in schema for key in _COMBINED)


def _types(schema: Mapping[str, Any]) -> set[str]:
    kind = schema.get("type", ())
    names = {kind} if isinstance(kind, str) else {str(name) for name in kind} if isinstance(kind, list) else set()
    return names | {"integer"} if "number" in names else names  # every integer is a number


def _members(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    properties = schema.get("properties")
    return properties if isinstance(properties, Mapping) else {}


def _required(schema: Mapping[str, Any]) -> list[str]:
    names = schema.get("required")
    return [str(name) for name in names] if isinstance(names, list) else []


def _path(place: str, name: str) -> str:
    return f"{place}.{name}" if place else name


def _shown(types: set[str]) -> str:
    return " or ".join(sorted(types))


def _unfit(why: str) -> DataError:
    return UnusableSchemaError(f"Incompatible schema: the schema to write with {why} (latest.compatibility.strict, "
                               "id.compatibility.strict)")
