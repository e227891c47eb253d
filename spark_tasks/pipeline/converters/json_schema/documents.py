"""JSON Schemas that refer to each other, and what their references point to. Pure: nothing is ever fetched.

A reference is relative to the URI of the schema around it, as in Confluent's converter: that of the nearest $id and,
without one, the name under which the registry has the document, which is itself relative to the $id of the first one.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote, urljoin

from spark_tasks.data.schema import exact
from spark_tasks.errors import DataError
from spark_tasks.limits import MAX_DEPTH, nests_deeper

_DEFINITIONS = {"definitions": "$defs", "$defs": "definitions"}  # the keyword's names before and since draft 2019-09
_BASE = "file:///"  # of schemas without an $id, so that ./item.json is item.json
_MAX_URI = 1000
_MAX_IDS = 20_000
_BY_NAME = frozenset({"properties", "patternProperties", "dependentSchemas", *_DEFINITIONS})
_VALUES = frozenset({"const", "enum", "default", "example", "examples"})  # these contain no schemas


def parse(text: str) -> Any:
    """Parses the text of a schema. Numbers with a fraction keep their digits, as Decimals. Raises DataError."""
    try:
        definition = json.loads(text, parse_float=exact)
        if not nests_deeper(definition, 4 * MAX_DEPTH):
            return definition
    except RecursionError:
        pass
    except ValueError as error:
        raise DataError(f"a JSON schema is not valid JSON: {error}") from error
    raise DataError(f"a JSON schema is nested more than {MAX_DEPTH} levels deep")


def with_definitions(document: Any) -> Any:
    """Returns a document whose definitions can be referred to by both names of that keyword."""
    if not isinstance(document, Mapping):
        return document
    found = {key: document[key] for key in _DEFINITIONS if isinstance(document.get(key), Mapping)}
    merged = {name: one for own in reversed(found.values()) for name, one in own.items()}
    both = {key: {**merged, **found.get(key, {})} for key in _DEFINITIONS if key in found or key not in document}
    return {**document, **both} if found else document


@dataclass(frozen=True, slots=True, eq=False)
class Scope:
    """What the references of a definition are relative to."""

    document: Any
    resource: Any  # the document, or the part of it that has an $id
    base: str  # the URI of `resource`


class Documents:
    """A schema with those that it uses."""

    def __init__(self, root: Any, references: Mapping[str, Any]) -> None:
        """`references`: parsed schemas by their names in the registry."""
        self._scopes: dict[int, Scope] = {}  # by the id() of a definition with an $id, or of a document
        self._by_id: dict[str, Scope] = {}
        self._anchors: dict[tuple[int, str], tuple[Any, Scope]] = {}  # by the id() of a document or resource, and name
        self._ids = 0
        self.root = self._indexed(root, _BASE)
        uris = {name: _joined(self.root.base, name) for name in references}
        self._by_name = {name: self._indexed(document, uris[name]) for name, document in references.items()}
        for name, uri in uris.items():
            self._by_name.setdefault(uri, self._by_name[name])

    def within(self, definition: Any, scope: Scope) -> Scope:
        """Returns the scope of a definition that is part of one with the given scope."""
        return self._scopes.get(id(definition), scope) if isinstance(definition, Mapping) else scope

    def target(self, reference: str, scope: Scope) -> tuple[Any, Scope]:
        """Returns the schema that a reference points to, and its scope. Raises DataError if there is none."""
        where, _, pointer = reference.partition("#")
        if where:
            scope = self._document(where, scope)
        if pointer and not pointer.startswith("/"):
            for owner in (scope.resource, scope.document):
                anchor = self._anchors.get((id(owner), unquote(pointer)))
                if anchor is not None:
                    return anchor
        steps = [unquote(step).replace("~1", "/").replace("~0", "~") for step in pointer.strip("/").split("/")]
        if steps == [""]:
            return scope.resource, scope
        renamed = [[_DEFINITIONS[steps[0]], *steps[1:]]] if steps[0] in _DEFINITIONS else []
        whole = self.within(scope.document, scope)
        for start in (scope,) if whole is scope else (scope, whole):
            for path in (steps, *renamed):
                found = self._followed(path, start)
                if found is not None:
                    return found
        raise DataError(f"a JSON schema refers to {reference}, which does not exist")

    def _document(self, where: str, scope: Scope) -> Scope:
        uri = _joined(scope.base, where)
        found = self._by_name.get(uri) or self._by_id.get(uri) or self._by_name.get(where)
        if found is None:
            raise DataError(f"a JSON schema refers to {where}, which is not among its references in the registry")
        return found

    def _followed(self, steps: list[str], scope: Scope) -> tuple[Any, Scope] | None:
        definition = scope.resource
        for step in steps:
            if isinstance(definition, Mapping) and step in definition:
                definition = definition[step]
            elif isinstance(definition, list) and _is_index(step, len(definition)):
                definition = definition[int(step)]
            else:
                return None
            scope = self.within(definition, scope)
        return definition, scope

    def _indexed(self, document: Any, uri: str) -> Scope:
        """Finds the $ids and anchors of a document, without recursion. Returns its scope."""
        first = Scope(document, document, uri)
        waiting = [(document, first)]
        while waiting:
            definition, scope = waiting.pop()
            if isinstance(definition, list):
                waiting += [(one, scope) for one in definition if isinstance(one, Mapping | list)]
                continue
            if not isinstance(definition, Mapping):
                continue
            scope = self._entered(definition, scope)
            for key, one in definition.items():
                if key in _BY_NAME and isinstance(one, Mapping):
                    waiting += [(part, scope) for part in one.values()]
                elif key not in _VALUES and isinstance(one, Mapping | list):
                    waiting.append((one, scope))
        return self.within(document, first)

    def _entered(self, definition: Mapping[str, Any], scope: Scope) -> Scope:
        """Notes the $id and the anchors of a definition. Returns the scope of its parts."""
        given = definition.get("$id")
        if given is None and definition is scope.document:
            given = definition.get("id")  # as it was called until draft 4
        own, _, anchor = given.partition("#") if isinstance(given, str) else ("", "", "")
        if own:
            scope = Scope(scope.document, definition, _joined(scope.base, own))
            self._by_id.setdefault(scope.base, scope)
        if own or definition is scope.document:
            self._scopes[id(definition)] = scope
        names = [one for one in (anchor, definition.get("$anchor"), definition.get("$dynamicAnchor"))
                 if isinstance(one, str) and one]
        self._ids += bool(own) + len(names)
        if self._ids > _MAX_IDS:
            raise DataError(f"a JSON schema has more than {_MAX_IDS} ids and anchors")
        for name in names:
            for owner in (scope.resource, scope.document):
                self._anchors.setdefault((id(owner), name), (definition, scope))
        return scope


def _is_index(step: str, length: int) -> bool:
    return step.isascii() and step.isdigit() and len(step) < 10 and int(step) < length


def _joined(base: str, reference: str) -> str:
    """Returns the URI of a reference within a schema with the URI `base`. Its length is limited, because an $id within
    an $id within an $id would be as long as all of them.
    """
    if len(base) + len(reference) > _MAX_URI:
        return reference
    try:
        return urljoin(base, reference)
    except ValueError:
        return reference
