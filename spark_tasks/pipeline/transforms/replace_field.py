"""ReplaceField."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
from typing_extensions import override

from spark_tasks.config.definition import Check, ConfigDef, ConfigKey, Type, ValidList, invalid
from spark_tasks.data.schema import Field, Schema
from spark_tasks.data.schema import Type as ConnectType
from spark_tasks.java.hash import capacity_for, hash_order
from spark_tasks.pipeline.converters.java_values import Struct, by_identity, require_map, require_struct
from spark_tasks.pipeline.transforms.columns_or_rows import NotInColumnsError, Record
from spark_tasks.pipeline.transforms.field_path import SYNTAX, parse_path
from spark_tasks.pipeline.transforms.field_transform import (
    REPLACE_NULLS,
    Changed,
    Nested,
    NestingTransform,
    Part,
    basics,
    fields_of,
    for_key,
)


def _renames(pairs: Sequence[str]) -> dict[str, str]:
    renames = {}
    for pair in pairs:
        parts = pair.rstrip(":").split(":")  # Java's split drops empty texts at the end
        if len(parts) != 2:
            raise invalid("renames", list(pairs), f"Invalid rename mapping: {pair}")
        renames[parts[0]] = parts[1]
    return renames


def _check_renames(_name: str, value: Any) -> None:
    _renames(value or ())


class ReplaceField(NestingTransform):
    """Removes fields and renames others."""

    purpose = "field replacement"
    config_def = ConfigDef(
        ConfigKey("exclude", Type.LIST, default=(), validator=ValidList(), doc="The fields to remove."),
        ConfigKey("include", Type.LIST, default=(), validator=ValidList(), doc="The only fields to keep."),
        ConfigKey(
            "renames", Type.LIST, default=(), doc="Pairs of the form old:new.",
            validator=Check(_check_renames, "list of colon-delimited pairs, e.g. <code>foo:bar,abc:xyz</code>"),
        ),
        REPLACE_NULLS,
        SYNTAX,
    )  # fmt: skip

    @override
    def configure(self, configs: Mapping[str, str]) -> None:
        values = self.config_def.parse(configs)
        exclude, include, renames = set(values["exclude"]), set(values["include"]), _renames(values["renames"])
        self._setup(exclude, include, renames, defaults=values["replace.null.with.default"])
        if values["field.syntax.version"].upper() == "V2":
            self._nested = self._levels(exclude, include, renames)

    def _setup(self, exclude: set[str], include: set[str], renames: dict[str, str], *, defaults: bool) -> None:
        self._exclude, self._include, self._renames, self.fills_defaults = exclude, include, renames, defaults
        self._sources = {renames[old]: old for old in hash_order(renames)}
        self.changed_schema = by_identity(self._changed_schema)  # type: ignore[method-assign,assignment]

    def _levels(self, exclude: set[str], include: set[str], renames: dict[str, str]) -> Nested:
        """Returns the transforms of the levels, the deepest level first."""
        levels: dict[tuple[str, ...], tuple[set[str], set[str], dict[str, str]]] = {}

        def level(path: Sequence[str]) -> tuple[set[str], set[str], dict[str, str]]:
            return levels.setdefault(tuple(path), (set(), set(), {}))

        for name in exclude:
            *path, last = parse_path(name, "V2")
            level(path)[0].add(last)
        for name in include:
            path = list(parse_path(name, "V2"))
            for depth, step in enumerate(path):
                level(path[:depth])[1].add(step)
        for old, new in renames.items():
            *path, last = parse_path(old, "V2")
            level(path)[2][last] = new
        levels_done = []
        for level_path in sorted(levels, key=len, reverse=True):
            transform = type(self)()
            transform._setup(*levels[level_path], defaults=self.fills_defaults)  # noqa: SLF001 - of this class
            levels_done.append((level_path, transform))
        return Nested(levels_done)

    def _keeps(self, name: str) -> bool:
        return name not in self._exclude and (not self._include or name in self._include)

    def _changed_schema(self, schema: Schema) -> Schema:
        kept = [Field(self._renames.get(f.name, f.name), f.schema) for f in fields_of(schema) if self._keeps(f.name)]
        return basics(schema, ConnectType.STRUCT, kept)

    @override
    def _order(self, names: list[str]) -> list[str]:
        kept = [self._renames.get(name, name) for name in names if self._keeps(name)]
        return hash_order(kept, capacity_for(len(names)))

    @override
    def _row(self, schema: Schema | None, value: Any, record: Record) -> Part:
        if schema is None:
            fields = require_map(value, self.purpose)
            kept = {self._renames.get(name, name): one for name, one in fields.items() if self._keeps(name)}
            return None, {name: kept[name] for name in self._order(list(fields))}
        old = require_struct(value, self.purpose)
        new = self.changed_schema(schema)
        struct = Struct(new)
        for field in new.fields:
            struct.put(field.name, old.get(self._sources.get(field.name, field.name), defaults=self.fills_defaults))
        return new, struct

    @override
    def _change(self, batch: pa.RecordBatch, array: pa.Array, field: pa.Field) -> Changed:
        columns = self._columns(array, field)
        kept = [name for name in columns.children if self._keeps(name)]
        names = [self._renames.get(name, name) for name in kept]
        if columns.schema is None:
            if len(set(names)) < len(names) and any(columns.fields[name].metadata for name in kept):
                raise NotInColumnsError  # a renamed field replaces another field with that name
            order = self._order(list(columns.children))
        else:
            columns.check_nulls()
            changed = self.changed_schema(columns.schema)
            if [self._sources.get(name, name) for name in names] != kept:
                raise NotInColumnsError  # another field already has the new name
        columns.children = {new: columns.children[old] for new, old in zip(names, kept, strict=True)}
        columns.fields = {new: columns.fields[old] for new, old in zip(names, kept, strict=True)}
        if columns.schema is None:
            return columns.build(order, None)
        return columns.build([f.name for f in changed.fields], changed)


ReplaceFieldKey = for_key(ReplaceField)
