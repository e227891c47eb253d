"""The query of the Sql transform: its parts, and errors in it that do not depend on the records."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from typing_extensions import override

from spark_tasks.data.columns import HEADERS_TYPE
from spark_tasks.errors import ConfigError
from spark_tasks.pipeline.transforms.sql_paths import Path

if TYPE_CHECKING:
    from datafusion import SessionContext, SQLOptions

PARTS = {"topic": pa.string(), "partition": pa.int32(), "offset": pa.int64(), "timestamp": pa.int64(),
          "key": pa.null(), "headers": pa.null()}  # fmt: skip
SETTABLE = {"topic": pa.string(), "partition": pa.int32(), "timestamp": pa.int64(), "key": pa.null(),
            "headers": HEADERS_TYPE}  # fmt: skip
ROW = "__row"
FIELD = "*."
"""Before the name of a column that `*` selects, if the column would otherwise be taken for something else."""
_MEANT_OTHERWISE = frozenset({"value", ROW, *(f"record.{name}" for name in SETTABLE)})
_TOKEN = re.compile(
    r"""(?P<space>\s+|--[^\n]*|/\*.*?(?:\*/|\Z))|(?P<text>'(?:[^']|'')*')|"(?P<quoted>(?:[^"]|"")*)"|(?P<word>\w+)|(?P<sign>.)""",
    re.DOTALL,
)
_COMBINING = frozenset(
    {"DISTINCT", "EXCEPT", "GROUP", "HAVING", "INTERSECT", "JOIN", "LIMIT", "ORDER", "OVER", "UNION"}
)
_KEYWORDS = frozenset({
    "AND", "AS", "BETWEEN", "CASE", "ELSE", "END", "FALSE", "FROM", "ILIKE", "IN", "INTERVAL", "IS", "LIKE", "NOT",
    "NULL", "OR", "SELECT", "THEN", "TRUE", "WHEN", "WHERE",
})  # fmt: skip
_COUNTING = frozenset({"array_repeat", "array_resize", "list_repeat", "list_resize", "lpad", "repeat", "rpad"})
"""Functions whose second argument is the length of the result. If there is not enough memory, they end the process."""
_PLANS = frozenset({"Projection", "Filter", "TableScan", "Unnest", "SubqueryAlias"})
_ALWAYS = re.compile(
    "^SQL error:|only supports a single SQL statement|^Error during planning: (?:Invalid function|"
    "Projections require unique expression names|Function '[^']*' expects .* arguments? but received|table |D[DM]L )|"
    "would be ambiguous$|does not support zero arguments|Aggregate functions are not allowed|Unsupported SQL type|"
    r"^This feature is not implemented: (?:FETCH|SORT BY|TOP|Operator \S+ is not yet supported)"
)
"""Errors of DataFusion that do not depend on the columns' types. It has no error classes or codes."""
_PARSER = re.compile(r'^SQL error: (?:Parser|Tokenizer)Error\("(.*)"\)$')
_POSITION = re.compile(r" at Line: \d+, Column: \d+")


@dataclass(frozen=True, slots=True)
class SqlQuery:
    """A query, divided where columns are inserted: the value's fields for each `*`, and the row number."""

    parts: tuple[str, ...]
    names: frozenset[str]  # all words that may be column names
    columns: frozenset[str]  # without those that are probably keywords, functions, types or new names
    unnests: bool = False  # may yield several rows for one
    paths: Mapping[str, frozenset[Path]] = field(default_factory=dict)  # such as a: ('b', 1)

    def text(self, fields: list[str], more: str = "") -> str:
        """Returns the query for a value with these fields. `more`: additional columns to select."""
        star = ", ".join(map(_selected, fields)) or "value"
        return star.join(self.parts[:-1]) + more + self.parts[-1]


def _selected(field: str) -> str:
    source = f"value[{_text(field)}]" if field in PARTS or field in ("value", ROW) else _quoted(field)
    is_taken_for_another = field in _MEANT_OTHERWISE or field.startswith(FIELD)
    return f"{source} AS {_quoted(FIELD + field if is_taken_for_another else field)}"


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
    parts, at = [], 0
    for token, after in zip(tokens, [*tokens[1:], None], strict=False):
        if (token["word"] or "").upper() != "OFFSET":
            continue
        if after is not None and (after["word"] or "").isdigit():
            raise ConfigError("OFFSET combines several records, but a transform processes each record separately")
        parts += [text[at : token.start()], _quoted(token[0])]
        at = token.end()
    return "".join([*parts, text[at:]])


def _is_comparison(token: re.Match[str], after: re.Match[str] | None) -> bool:
    """Returns whether a DISTINCT is that of IS DISTINCT FROM."""
    return token[0].upper() == "DISTINCT" and after is not None and after[0].upper() == "FROM"


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


def _paths(tokens: Sequence[re.Match[str]]) -> dict[str, frozenset[Path]]:
    """Returns the paths into columns, such as ('b', 1) of a for a['b'][1], by column."""
    found = defaultdict[str, set[Path]](set)
    for number, token in enumerate(tokens):
        name = token["word"] if token["quoted"] is None else token["quoted"].replace('""', '"')
        if name is None:
            continue
        path: list[str | int] = []
        for start in range(number + 1, len(tokens) - 2, 3):
            opened, step, closed = tokens[start : start + 3]
            if opened[0] != "[" or closed[0] != "]" or (step["text"] is None and not step[0].isdigit()):
                break
            path.append(int(step[0]) if step["text"] is None else step["text"][1:-1].replace("''", "'"))
        if path:
            found[name].add(tuple(path))
    return {name: frozenset(paths) for name, paths in found.items()}


def _check_counts(tokens: Sequence[re.Match[str]]) -> None:
    """Raises ConfigError if a record could set the length of a result, and so end the process."""
    for number, token in enumerate(tokens[:-1]):
        name = (token["quoted"] or token[0]).lower()
        if name in _COUNTING and tokens[number + 1][0] == "(":
            arguments = _arguments(tokens[number + 2 :])
            if len(arguments) > 1 and not _is_limited(arguments[1]):
                raise ConfigError(f"the second argument of {name} must have a limit in the query, because a record "
                                  "with a huge number would end the process: write a number, or least(…, 1000)")


def _arguments(tokens: Sequence[re.Match[str]]) -> list[list[re.Match[str]]]:
    """Returns the arguments of a function call, whose opening bracket comes before the tokens."""
    arguments: list[list[re.Match[str]]] = [[]]
    depth = 0
    for token in tokens:
        sign = token["sign"] or ""
        if sign == ")" and depth == 0:
            break
        depth += (sign in {"(", "["}) - (sign in {")", "]"})
        if sign == "," and depth == 0:
            arguments.append([])
        else:
            arguments[-1].append(token)
    return arguments


def _is_limited(argument: Sequence[re.Match[str]]) -> bool:
    """Returns whether an argument is a number or the least of a number and others."""
    words = [token[0].lower() for token in argument]
    if words[:2] == ["least", "("] and words[-1] == ")" and len(_arguments(argument[2:])) > 1:
        return any(map(_is_limited, _arguments(argument[2:])))
    return len(words) == 1 and words[0].isdigit()


def parsed(text: str) -> SqlQuery:
    """Parses the query. Raises ConfigError unless it is one SELECT … FROM records …"""
    text = _with_offsets(text.strip().removesuffix(";"))
    tokens = _tokens(text)
    names = {token["quoted"].replace('""', '"') if token["quoted"] is not None else token["word"] for token in tokens
             if token["quoted"] is not None or token["word"] is not None}  # fmt: skip
    words = [token["word"].upper() for token, after in zip(tokens, [*tokens[1:], None], strict=False)
             if token["word"] is not None and not _is_comparison(token, after)]  # fmt: skip
    if not words or tokens[0][0].upper() != "SELECT":
        raise ConfigError("it does not begin with SELECT")
    if words.count("SELECT") > 1:
        raise ConfigError("it has a SELECT inside another")
    if combining := sorted(_COMBINING.intersection(words)):
        raise ConfigError(f"{combining[0]} combines several records, but a transform processes each record separately "
        "(put a column with this name in double quotes)")
    _check_counts(tokens)
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
        elif depth == 0 and sign == "FROM" and before != "DISTINCT":
            if after is None or (after["quoted"] or after[0]) != "records":
                raise ConfigError("FROM must be followed by records, the name of the only table")
            if "," in [sign[0] for sign in tokens[number + 2 : number + 3]]:
                raise ConfigError("it has a second table; the only table is records")
            parts += [text[begin : token.start()], text[token.start() :]]
            return SqlQuery(tuple(parts), frozenset(names), frozenset(_columns(tokens)), "UNNEST" in words,
                            _paths(tokens))
        before = sign
    raise ConfigError("it has no FROM records")


def _check_plans(text: str) -> None:
    """Raises ConfigError for what fails regardless of the records, by planning the query without any. Without
    DataFusion the query is only parsed.
    """
    query = parsed(text)
    if find_spec("datafusion") is None:
        return
    context, options = new_session()
    one = "a field"
    planned = query.text([one])
    for kind in (pa.null(), pa.int64()):  # the types are unknown, and each suits other functions
        names = [*sorted(query.names - PARTS.keys() - {"value"}), one]
        columns = [pa.nulls(0) for _ in (*PARTS, "value")] + [pa.nulls(0, kind) for _ in names]
        context.register_record_batches("records", [[pa.record_batch(columns, names=[*PARTS, "value", *names])]])
        try:
            check_plan(context.sql_with_options(planned, options).logical_plan())
        except ConfigError:
            raise
        except Exception as error:  # other errors may depend on the types of records
            if _ALWAYS.search(first_line(error)):
                raise ConfigError(_described(error, in_query=planned == text.strip())) from error
        finally:
            context.deregister_table("records")


def _described(error: Exception, *, in_query: bool) -> str:
    """Returns the message. `in_query`: positions in it are those in the query of the configuration."""
    words = _PARSER.sub(lambda found: found[1].replace('\\"', '"'), first_line(error))
    words = words.removeprefix("Error during planning: ").removesuffix(".")
    advice = [line for line in str(error).splitlines()[1:] if line.startswith("Did you mean")]
    return ". ".join([words if in_query else _POSITION.sub("", words), *advice])


class ValidQuery:
    """Accepts a query that can be planned. Its columns and types are unknown until there are records."""

    def __call__(self, name: str, value: Any) -> None:
        """Raises ConfigError if the query fails for all records."""
        try:
            _check_plans(str(value))
        except ConfigError as error:
            raise ConfigError(f"Invalid value {value} for configuration {name}: {error}; expected {self}") from error

    @override
    def __str__(self) -> str:
        return "SELECT … FROM records WHERE …"


def new_session() -> tuple[SessionContext, SQLOptions]:
    """Returns a session that can read only the records: no files, other tables or settings."""
    try:
        from datafusion import SessionConfig, SessionContext, SQLOptions  # noqa: PLC0415 - optional, and large
    except ImportError as error:
        raise ConfigError("The transform Sql needs the package datafusion: pip install 'heeler[sql]'") from error
    config = SessionConfig().with_target_partitions(1).with_information_schema(False).with_batch_size(1 << 20)
    config = config.set("datafusion.sql_parser.enable_ident_normalization", "false")
    options = SQLOptions().with_allow_ddl(False).with_allow_dml(False).with_allow_statements(False)
    return SessionContext(config), options


def check_plan(plan: Any) -> None:
    """Raises ConfigError for a plan that combines several records, such as an aggregate."""
    kind = type(plan.to_variant()).__name__
    if kind not in _PLANS:
        raise ConfigError(f"The query of the transform Sql combines several records ({kind}), but a transform "
                          "processes each record separately")
    for inner in plan.inputs():
        check_plan(inner)


def first_line(error: Exception) -> str:
    """Returns the first line of the message of the error's cause, or the error's class if it has none."""
    return str(error).rpartition("\ncaused by\n")[2].partition("\n")[0] or type(error).__name__
