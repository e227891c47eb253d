"""Sql: a SELECT on the records of a batch, which DataFusion runs (ADR 0018)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from typing_extensions import override

from spark_tasks.config.definition import ConfigDef, ConfigKey, Importance, Type
from spark_tasks.data.arrow_types import from_arrow, to_arrow
from spark_tasks.data.columns import HEADERS_TYPE, is_json, struct_array
from spark_tasks.data.schema import Field, Schema
from spark_tasks.data.schema import Type as ConnectType
from spark_tasks.errors import ConfigError, DataError
from spark_tasks.java.hash import hash_order
from spark_tasks.pipeline.converters.base import BadRowError, schema_of
from spark_tasks.pipeline.transforms.base import Transform
from spark_tasks.pipeline.transforms.field_transform import Columns, described
from spark_tasks.pipeline.transforms.java_columns import column
from spark_tasks.pipeline.transforms.rows import NotInColumnsError, connect_values, joined, put

if TYPE_CHECKING:
    from datafusion import SessionContext, SQLOptions

_PARTS = {"topic": pa.string(), "partition": pa.int32(), "offset": pa.int64(), "timestamp": pa.int64(),
          "key": pa.null(), "headers": pa.null()}  # fmt: skip
_SETTABLE = {"partition": pa.int32(), "timestamp": pa.int64(), "headers": HEADERS_TYPE}
_ROW = "__row"
_TOKEN = re.compile(
    r"""(?P<space>\s+|--[^\n]*|/\*.*?\*/)|(?P<text>'(?:[^']|'')*')|"(?P<quoted>(?:[^"]|"")*)"|(?P<word>\w+)|(?P<sign>.)""",
    re.DOTALL,
)
_COMBINING = frozenset(
    {"DISTINCT", "EXCEPT", "GROUP", "HAVING", "INTERSECT", "JOIN", "LIMIT", "ORDER", "OVER", "UNION"}
)
_KEYWORDS = frozenset({
    "AND", "AS", "BETWEEN", "CASE", "ELSE", "END", "FALSE", "FROM", "ILIKE", "IN", "INTERVAL", "IS", "LIKE", "NOT",
    "NULL", "OR", "SELECT", "THEN", "TRUE", "WHEN", "WHERE",
})  # fmt: skip
_PLANS = frozenset({"Projection", "Filter", "TableScan", "Unnest", "SubqueryAlias"})
_ALWAYS = re.compile(
    "^SQL error:|only supports a single SQL statement|^Error during planning: (?:Invalid function|"
    "Projections require unique expression names|Function '[^']*' expects .* arguments? but received|table |D[DM]L )|"
    "would be ambiguous$|does not support zero arguments|Aggregate functions are not allowed|Unsupported SQL type|"
    r"^This feature is not implemented: (?:FETCH|SORT BY|TOP|Operator \S+ is not yet supported)"
)
"""Errors of DataFusion that do not depend on the columns' types. It has no error classes or codes."""
_TYPES = (pa.null(), pa.string(), pa.list_(pa.null()), pa.int64(), pa.map_(pa.string(), pa.null()))
"""Types for a column of which this batch has no value. Most functions take null; each other type suits some."""
_MAX_TYPED = 3  # columns for which types are tried, since each combination is planned
_MAX_KNOWN = 1000
_PARSER = re.compile(r'^SQL error: (?:Parser|Tokenizer)Error\("(.*)"\)$')
_POSITION = re.compile(r" at Line: \d+, Column: \d+")


@dataclass(frozen=True, slots=True)
class _Query:
    """A query, divided where columns are inserted: the value's fields for each `*`, and the row number."""

    parts: tuple[str, ...]
    names: frozenset[str]  # all words that may be column names
    columns: frozenset[str]  # without those that are probably keywords, functions, types or new names

    def text(self, fields: list[str], more: str = "") -> str:
        """Returns the query for a value with these fields. `more`: additional columns to select."""
        star = ", ".join(
            f"value[{_text(name)}] AS {_quoted(name)}" if name in _PARTS or name == "value" else _quoted(name)
            for name in fields
        ) or "value"
        return star.join(self.parts[:-1]) + more + self.parts[-1]


def _text(name: str) -> str:
    return "'" + name.replace("'", "''") + "'"


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _tokens(text: str) -> list[re.Match[str]]:
    return [token for token in _TOKEN.finditer(text) if token["space"] is None]


def _with_offsets(text: str) -> str:
    """Returns the query with the column `offset` in quotes, because it is also a keyword. Raises ConfigError if it is
    used as such.
    """
    tokens = _tokens(text)
    for token, after in reversed(list(zip(tokens, [*tokens[1:], None], strict=False))):
        if (token["word"] or "").upper() != "OFFSET":
            continue
        if after is not None and (after["word"] or "").isdigit():
            raise ConfigError("OFFSET combines several records, but a transform processes each record separately")
        text = text[: token.start()] + _quoted(token[0]) + text[token.end() :]
    return text


def _columns(tokens: Sequence[re.Match[str]]) -> Iterator[str]:
    before = ""
    for token, after in zip(tokens, [*tokens[1:], None], strict=True):
        word, quoted = token["word"], token["quoted"]
        if before in {"AS", ":", "FROM"} or (after is not None and after[0] == "("):
            pass
        elif quoted is not None:
            yield quoted.replace('""', '"')
        elif word is not None and not word[0].isdigit() and word.upper() not in _KEYWORDS:
            yield word
        before = token[0].upper()


def _query(text: str) -> _Query:
    """Parses the query. Raises ConfigError unless it is one SELECT … FROM records …"""
    text = _with_offsets(text.strip().removesuffix(";"))
    tokens = _tokens(text)
    names = {token["quoted"].replace('""', '"') if token["quoted"] is not None else token["word"] for token in tokens
             if token["quoted"] is not None or token["word"] is not None}  # fmt: skip
    words = [token["word"].upper() for token in tokens if token["word"] is not None]
    if not words or tokens[0][0].upper() != "SELECT":
        raise ConfigError("it does not begin with SELECT")
    if words.count("SELECT") > 1:
        raise ConfigError("it has a SELECT inside another")
    if combining := sorted(_COMBINING.intersection(words)):
        raise ConfigError(f"{combining[0]} combines several records, but a transform processes each record separately "
        "(put a column with this name in double quotes)")
    depth, begin, before = 0, 0, ""
    parts: list[str] = []
    for number, (token, after) in enumerate(zip(tokens, [*tokens[1:], None], strict=True)):
        sign = token[0].upper()
        depth += (sign in "([") - (sign in ")]") if len(sign) == 1 else 0
        if sign == "*" and before == "." and tokens[number - 2]["sign"] is None and not tokens[number - 2][0].isdigit():
            raise ConfigError("write * for all fields of the value, without a name before it")
        if depth == 0 and sign == "*" and before in {"SELECT", ","}:
            parts.append(text[begin : token.start()])
            begin = token.end()
        elif depth == 0 and sign == "FROM":
            if after is None or (after["quoted"] or after[0]) != "records":
                raise ConfigError("FROM must be followed by records, the name of the only table")
            if "," in [sign[0] for sign in tokens[number + 2 : number + 3]]:
                raise ConfigError("it has a second table; the only table is records")
            parts += [text[begin : token.start()], text[token.start() :]]
            return _Query(tuple(parts), frozenset(names), frozenset(_columns(tokens)))
        before = sign
    raise ConfigError("it has no FROM records")


def _check_plans(text: str) -> None:
    """Raises ConfigError for what fails regardless of the records, by planning the query without any. Without
    DataFusion the query is only parsed.
    """
    query = _query(text)
    if find_spec("datafusion") is None:
        return
    context, options = _session()
    one = "a field"
    planned = query.text([one])
    for kind in (pa.null(), pa.int64()):  # the types are unknown, and each suits other functions
        names = [*sorted(query.names - _PARTS.keys() - {"value"}), one]
        columns = [pa.nulls(0) for _ in (*_PARTS, "value")] + [pa.nulls(0, kind) for _ in names]
        context.register_record_batches("records", [[pa.record_batch(columns, names=[*_PARTS, "value", *names])]])
        try:
            _check(context.sql_with_options(planned, options).logical_plan())
        except ConfigError:
            raise
        except Exception as error:  # other errors may depend on the types of records
            if _ALWAYS.search(_first_line(error)):
                raise ConfigError(_described(error, in_query=planned == text.strip())) from error
        finally:
            context.deregister_table("records")


def _described(error: Exception, *, in_query: bool) -> str:
    """Returns the message. `in_query`: positions in it are those in the query of the configuration."""
    words = _PARSER.sub(lambda found: found[1].replace('\\"', '"'), _first_line(error))
    words = words.removeprefix("Error during planning: ").removesuffix(".")
    advice = [line for line in str(error).splitlines()[1:] if line.startswith("Did you mean")]
    return " ".join([words if in_query else _POSITION.sub("", words), *advice])


class ValidQuery:
    """Accepts a query that can be planned. Its columns and types are unknown until there are records."""

    def __call__(self, name: str, value: Any) -> None:
        """Raises ConfigError if the query fails for all records."""
        try:
            _check_plans(str(value))
        except ConfigError as error:
            raise ConfigError(f"Invalid value {value} for configuration {name}: {error}; expected {self}") from error

    def __str__(self) -> str:
        return "SELECT … FROM records WHERE …"


class Sql(Transform):
    """Creates the new values with a SELECT, and drops records that do not satisfy its WHERE."""

    version = "1.0"
    config_def = ConfigDef(
        ConfigKey("query", Type.STRING, importance=Importance.HIGH, validator=ValidQuery(), doc=(
            "SELECT … FROM records WHERE …. The columns are the fields of the value, and value, key, headers, topic, "
            "partition, offset and timestamp. The selected columns become the new value.")),
    )  # fmt: skip

    @override
    def configure(self, configs: Mapping[str, str]) -> None:
        """Raises ConfigError if DataFusion is not installed, and for errors in the query regardless of records."""
        self._query = _query(self.config_def.parse(configs)["query"])
        self._context, self._options = _session()
        self._known: dict[tuple[Any, ...], tuple[pa.DataType, ...]] = {}  # types that suit columns without values

    @override
    def apply(self, batch: pa.RecordBatch) -> list[pa.RecordBatch]:
        return joined(list(self._apply(batch, 0)))

    def _apply(self, batch: pa.RecordBatch, begin: int) -> Iterator[pa.RecordBatch]:
        if not len(batch):
            return
        if _is_mixed(batch) and len(batch) > 1:
            yield from self._halves(batch, begin)
            return
        try:
            selected = self._selected(_retyped(batch) if _is_mixed(batch) else batch)
        except ConfigError:
            raise
        except Exception as error:  # DataFusion has no error classes: a record or a type may be the cause
            if len(batch) == 1:
                raise BadRowError(begin, _first_line(error)) from error
            yield from self._halves(batch, begin)
            return
        yield selected

    def _halves(self, batch: pa.RecordBatch, begin: int) -> Iterator[pa.RecordBatch]:
        half = len(batch) // 2
        yield from self._apply(batch.slice(0, half), begin)
        yield from self._apply(batch.slice(half), begin + half)

    def _selected(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        rows = self._rows(*self._table(batch))
        metadata = {field.name: dict(field.metadata or {}) for field in rows.schema}
        columns = dict(zip(rows.schema.names, rows.columns, strict=True))
        result = batch.take(columns.pop(_ROW))
        typed = schema_of(batch.schema.field("value").metadata) is not None
        for name in ("topic", "partition", "timestamp", "key", "headers"):
            new = columns.pop(f"record.{name}", None)
            if new is not None:
                result = _with_part(result, name, new, metadata[f"record.{name}"], typed=typed)
        if not columns:
            return result
        if columns.keys() == {"value"}:
            return put(result, "value", columns["value"], metadata["value"])
        return put(result, "value", *_value(columns, metadata, result, typed=typed))

    def _rows(self, table: pa.RecordBatch, fields: list[str]) -> pa.RecordBatch:
        """Returns the query's rows. A column without values has no type, so that some functions fail, although they
        accept its nulls beside the values of other records. If so, it gets a type that suits the query.
        """
        empty = [field.name for field in table.schema
                 if pa.types.is_null(field.type) and field.name in self._query.columns]  # fmt: skip
        types = self._known.get(_key(table))
        if types is None:
            try:
                return self._collected(table, fields)
            except Exception as error:
                if not empty or isinstance(error, ConfigError):
                    raise
                types = self._suitable(table, fields, empty)
        return self._collected(_with_types(table, empty, types), fields)

    def _suitable(self, table: pa.RecordBatch, fields: list[str], empty: list[str]) -> tuple[pa.DataType, ...]:
        """Returns types for the empty columns with which the query accepts a record of nulls; nulls if there are none.
        The result depends only on the columns' types, and not on the values of a bad record.
        """
        nulls = [pa.nulls(1, kind) for kind in table.schema.types]
        nulls[table.schema.get_field_index(_ROW)] = pa.array([0])
        record = pa.record_batch(nulls, schema=table.schema)
        combinations = _combinations(len(empty))
        suitable = combinations[0]
        for types in combinations:
            try:
                self._collected(_with_types(record, empty, types), fields)
            except Exception:  # noqa: BLE001, S112 - DataFusion has no error classes
                continue
            suitable = types
            break
        if len(self._known) >= _MAX_KNOWN:
            self._known.clear()
        self._known[_key(table)] = suitable
        return suitable

    def _collected(self, table: pa.RecordBatch, fields: list[str]) -> pa.RecordBatch:
        with self._records(table):
            frame = self._context.sql_with_options(self._query.text(fields, f", {_ROW} "), self._options)
            _check(frame.logical_plan())
            batches = frame.collect()
            return pa.concat_batches(batches) if batches else pa.RecordBatch.from_pylist([], schema=frame.schema())

    @contextmanager
    def _records(self, table: pa.RecordBatch) -> Iterator[None]:
        self._context.register_record_batches("records", [[table]])
        try:
            yield
        finally:
            self._context.deregister_table("records")

    def _table(self, batch: pa.RecordBatch) -> tuple[pa.RecordBatch, list[str]]:
        """Returns the table for the query, and the names of the value's fields."""
        arrays, metadata, fields = {}, {}, []
        for name, kind in _PARTS.items():
            exists = name in batch.schema.names
            arrays[name] = batch.column(name) if exists else pa.nulls(len(batch), kind)
        if pa.types.is_dictionary(arrays["topic"].type):
            arrays["topic"] = arrays["topic"].cast(pa.string())
        value, field = batch.column("value"), batch.schema.field("value")
        try:
            found = Columns(value, field)
        except NotInColumnsError:
            found = None
        if found is not None:
            schemas = {f.name: f.schema for f in found.schema.fields} if found.schema else {}
            for name, child in found.children.items():
                fields.append(name)
                arrays.setdefault(name, child)
                own = described(schemas.get(name)) or dict(found.fields[name].metadata or {})
                if arrays[name] is child:
                    metadata[name] = own
        arrays["value"], metadata["value"] = value, dict(field.metadata or {})
        schema = schema_of(field.metadata)
        if schema is None:  # a key that no record of this batch has
            for name in self._query.names - arrays.keys():
                arrays[name] = pa.nulls(len(batch))
        arrays[_ROW] = pa.array(np.arange(len(batch)))
        columns = [pa.field(name, array.type, metadata=metadata.get(name)) for name, array in arrays.items()]
        return pa.record_batch(list(arrays.values()), schema=pa.schema(columns)), fields


def _combinations(columns: int) -> list[tuple[pa.DataType, ...]]:
    """Returns the combinations of types to try for columns without values; those with most nulls first."""
    if columns > _MAX_TYPED:
        return [(kind,) * columns for kind in _TYPES]
    return sorted(product(_TYPES, repeat=columns), key=lambda types: columns - types.count(pa.null()))


def _key(table: pa.RecordBatch) -> tuple[Any, ...]:
    return (*table.schema.names, *table.schema.types)


def _with_types(table: pa.RecordBatch, names: Sequence[str], types: Sequence[pa.DataType]) -> pa.RecordBatch:
    for name, kind in zip(names, types, strict=True):
        if not pa.types.is_null(kind):
            index = table.schema.get_field_index(name)
            table = table.set_column(index, table.schema.field(index).with_type(kind), pa.nulls(len(table), kind))
    return table


def _session() -> tuple[SessionContext, SQLOptions]:
    """Returns a session that can read only the records: no files, other tables or settings."""
    try:
        from datafusion import SessionConfig, SessionContext, SQLOptions  # noqa: PLC0415 - optional, and large
    except ImportError as error:
        raise ConfigError("The transform Sql needs the package datafusion: pip install 'heeler[sql]'") from error
    config = SessionConfig().with_target_partitions(1).with_information_schema(False).with_batch_size(1 << 20)
    config = config.set("datafusion.sql_parser.enable_ident_normalization", "false")
    options = SQLOptions().with_allow_ddl(False).with_allow_dml(False).with_allow_statements(False)
    return SessionContext(config), options


def _check(plan: Any) -> None:
    """Raises ConfigError for a plan that combines several records, such as an aggregate."""
    kind = type(plan.to_variant()).__name__
    if kind not in _PLANS:
        raise ConfigError(f"The query of the transform Sql combines several records ({kind}), but a transform changes "
                          "each by itself")
    for inner in plan.inputs():
        _check(inner)


def _is_mixed(batch: pa.RecordBatch) -> bool:
    """Returns whether a column of the value contains values of different types, as JSON."""
    return _has_json(batch.schema.field("value"))


def _has_json(field: pa.Field) -> bool:
    if is_json(field.metadata):
        return True
    kind = field.type
    inner = list(kind) if pa.types.is_struct(kind) else [kind.value_field] if pa.types.is_list(kind) else []
    return any(_has_json(one) for one in inner)


def _retyped(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Returns a batch of one record with the types of this record's values."""
    return put(batch, "value", *column(connect_values(batch, "value")))


def _with_part(
    batch: pa.RecordBatch, name: str, array: pa.Array, metadata: dict[bytes, bytes], *, typed: bool
) -> pa.RecordBatch:
    if name == "topic":
        if array.null_count:
            raise DataError('the query sets "record.topic" to NULL; set a topic, or drop the record with WHERE')
        return put(batch, name, array.cast(pa.string()).dictionary_encode())
    if name == "key":
        array, schema = _plain(array, metadata)
        return put(batch, name, array, described(schema) if typed else metadata)
    return put(batch, name, array.cast(_SETTABLE[name]))


def _value(
    columns: Mapping[str, pa.Array], metadata: Mapping[str, dict[bytes, bytes]], batch: pa.RecordBatch, *, typed: bool
) -> tuple[pa.Array, dict[bytes, bytes] | None]:
    """Returns the column of the new value and its metadata. A tombstone remains a tombstone."""
    old = batch.column("value")
    nulls = pc.is_null(old) if old.null_count else None
    schema = schema_of(batch.schema.field("value").metadata)
    names = list(columns) if typed else hash_order(columns)
    children, fields, own = [], [], []
    for name in names:
        child, its = _plain(columns[name], metadata[name])
        if child.null_count and not its.optional:
            its = its.as_optional()
        children.append(child)
        own.append(Field(name, its))
        fields.append(pa.field(name, child.type, nullable=its.optional or not typed,
                               metadata=None if typed else metadata[name]))
    array = struct_array(children, fields, len(batch), nulls)
    if schema is None:
        return array, None
    return array, described(Schema(ConnectType.STRUCT, optional=schema.optional, fields=tuple(own)))


def _plain(array: pa.Array, metadata: Mapping[bytes, bytes]) -> tuple[pa.Array, Schema]:
    """Returns the column with a Connect type, and its schema: the original one if the query only selects the column."""
    known = schema_of(metadata)
    if known is not None and to_arrow(known) == array.type:
        return array, known
    if pa.types.is_null(array.type):
        return array, from_arrow(array.type)
    schema = from_arrow(array.type)
    return array.cast(to_arrow(schema), safe=not pa.types.is_timestamp(array.type)), schema  # now() has nanoseconds


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0] or type(error).__name__
