"""Transforms have the same results in columns and record by record, for any records."""

from __future__ import annotations

import json
import re
from collections.abc import Callable

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from spark_tasks.data.schema import Type
from spark_tasks.errors import ConfigError, DataError
from spark_tasks.pipeline.converters.base import BadRowsError
from spark_tasks.pipeline.transforms.chain import make_chain
from spark_tasks.pipeline.transforms.columns_or_rows import ColumnsOrRows, NotInColumnsError, SuspectRowsError
from spark_tasks.pipeline.transforms.java_casts import cast, cast_column
from spark_tasks.plugins import Plugins
from tests.golden.transforms.cases import T, case
from tests.golden.transforms.ours import connector_config, read, write

PLUGINS = Plugins()
INTEGER, FLOATING = re.compile("-?[0-9]+"), re.compile(r"-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?")


def shown(one, batches):
    """The records as JSON; the order of the keys of schemaless maps is one for all rows of a column."""
    found = [record for batch in batches for record in write(one, batch)]
    for record in found:
        for part in ("key", "value"):
            record[part] = record[part] and json.loads(record[part])
    return found


def outcome(work):
    try:
        return work()
    except (DataError, pa.ArrowException, OverflowError):
        return "error"


@example(2718, 10)  # a field that is null in some maps and in others not there becomes the value
@given(st.integers(0, 10**9), st.integers(1, 12))
def test_columns_and_single_records_are_transformed_identically(number, size):
    one = case(1, number, records=size)
    try:
        stages = make_chain(PLUGINS, connector_config(one["chain"])).stages
        batch = read(one, one["records"])
    except (ConfigError, DataError):
        return
    for stage in stages:
        transform = stage.transform
        if not isinstance(transform, ColumnsOrRows):
            continue
        try:
            columns = outcome(lambda t=transform: shown(one, [t.columns(batch)]))
        except NotInColumnsError:
            continue
        rows = outcome(lambda t=transform: shown(one, t.by_rows(batch)))
        if columns != "error":  # else records decide
            assert columns == rows


def same_as_single_records(one, transform, batch):
    """Whether a transform makes of a batch what it makes of its records one by one, if none is bad."""
    rows = outcome(lambda: shown(one, transform.by_rows(batch)))
    if rows == "error":
        return True
    changed = transform.apply(batch)
    # An error: a null of a required schema, which means that there is no value.
    return outcome(lambda: shown(one, changed)) in (rows, "error")


@given(st.integers(0, 10**9), st.integers(100, 600),
       st.dictionaries(st.integers(0, 599), st.integers(1, 3), max_size=5), st.booleans())  # fmt: skip
def test_a_few_records_among_many_may_lack_members_or_have_other_types(number, size, odd, every_second):
    one = case(3, number, records=4)
    kinds = [odd.get(row, row % 2 if every_second else 0) for row in range(size)]
    try:
        stages = make_chain(PLUGINS, connector_config(one["chain"])).stages
        batch = read(one, [one["records"][kind] for kind in kinds])
    except (ConfigError, DataError):
        return
    for stage in stages:
        assert not isinstance(stage.transform, ColumnsOrRows) or same_as_single_records(one, stage.transform, batch)


INNER = ("a", "b", "a.b")
PATHS = st.lists(st.sampled_from([*INNER, *INNER, "missing"]), min_size=1, max_size=2).map(
    lambda steps: ".".join(f"`{step}`" if "." in step else step for step in steps)
)
NESTED: dict[str, Callable[[list[str]], dict[str, str]]] = {
    "Cast$Value": lambda paths: {"spec": ",".join(f"{path}:string" for path in paths)},
    "ExtractField$Value": lambda paths: {"field": paths[0]},
    **{f"HeaderFrom$Value{space}": lambda paths, operation=operation: {
        "fields": ",".join(paths), "headers": ",".join(["h", "i", "j"][: len(paths)]), "operation": operation,
    } for space, operation in (("", "move"), (" ", "copy"))},
    "InsertField$Value": lambda paths: {"static.field": paths[0], "static.value": "x", "timestamp.field": paths[-1]},
    "MaskField$Value": lambda paths: {"fields": ",".join(paths)},
    "ReplaceField$Value": lambda paths: {"exclude": ",".join(paths[1:]), "renames": f"{paths[0]}:new"},
    "TimestampConverter$Value": lambda paths: {"field": paths[0], "target.type": "string", "format": "yyyy-MM-dd"},
    "ValueToKey": lambda paths: {"fields": ",".join(paths)},
}  # fmt: skip
LEAVES = st.sampled_from([1, 2**40, 1.5, "x", "12", True, None])
FULL = st.fixed_dictionaries({"id": LEAVES, **{name: st.fixed_dictionaries(dict.fromkeys(INNER, LEAVES))
                                               for name in INNER}})  # fmt: skip
OTHER = st.dictionaries(st.sampled_from(INNER), LEAVES | st.dictionaries(st.sampled_from(INNER), LEAVES))
TYPES = {bool: "boolean", int: "int64", float: "double", str: "string", type(None): "string"}


def schema_of(tree):
    if not isinstance(tree, dict):
        return {"type": TYPES[type(tree)], "optional": True}
    return {"type": "struct", "optional": True,
            "fields": [{**schema_of(one), "field": name} for name, one in tree.items()]}  # fmt: skip


@given(st.sampled_from(sorted(NESTED)), st.lists(PATHS, min_size=1, max_size=3, unique=True), FULL,
       st.dictionaries(st.integers(0, 299), OTHER, max_size=3), st.sampled_from([6, 300]), st.booleans())  # fmt: skip
def test_fields_named_by_paths_are_transformed_identically_in_columns_and_single_records(
    name, paths, tree, others, size, schemas
):
    config = {**NESTED[name](paths), "field.syntax.version": "V2"}
    one = {"schemas": schemas, "replace_nulls": True, "sink": True}
    trees = [tree if schemas else others.get(row, tree) for row in range(size)]
    texts = [json.dumps({"schema": schema_of(of), "payload": of} if schemas else of) for of in trees]
    records = [
        {"topic": "t", "partition": 0, "offset": 1, "timestamp": 1700000000123, "key": None, "headers": [],
         "value": text}
        for text in texts
    ]  # fmt: skip
    try:
        (stage,) = make_chain(PLUGINS, connector_config([{"class": T + name.strip(), "config": config}])).stages
        batch = read(one, records)
    except (ConfigError, DataError):
        return
    assert same_as_single_records(one, stage.transform, batch)


@given(st.integers(0, 10**9))
def test_one_bad_record_among_many_is_found(number):
    """Whether found in columns or record by record: all named records are bad, and all others are good."""
    one = case(2, number, records=100)
    try:
        (stage, *_) = make_chain(PLUGINS, connector_config(one["chain"])).stages
        batch = read(one, one["records"])
    except (ConfigError, DataError):
        return
    if not isinstance(stage.transform, ColumnsOrRows):
        return
    alone = [outcome(lambda row=row: len(stage.transform.apply(batch.slice(row, 1)))) for row in range(len(batch))]
    if "error" not in alone:
        stage.transform.apply(batch)
        return
    rows, named = list(range(len(batch))), set()
    while rows:
        try:
            stage.transform.apply(batch.take(pa.array(rows)))
            break
        except BadRowsError as error:
            found = {rows[row] for row, _ in error.bad}
            assert found
            named |= found
            rows = [row for row in rows if row not in found]
    assert named == {row for row, made in enumerate(alone) if made == "error"}


@given(st.lists(st.one_of(
    st.none(), st.from_regex(INTEGER, fullmatch=True), st.from_regex(FLOATING, fullmatch=True),
    st.text(alphabet="0159+-.eExX \u0661", max_size=8),
), max_size=6), st.sampled_from([(Type.INT64, INTEGER), (Type.FLOAT64, FLOATING)]))  # fmt: skip
def test_a_column_of_texts_is_cast_if_all_are_plain_numbers(texts, kind):
    """All others are named."""
    target, plain = kind
    suspect = [row for row, text in enumerate(texts) if text is not None and not plain.fullmatch(text)]
    before = pa.array([None, "x", *texts], pa.string())  # of which the column is a part
    if suspect:
        with pytest.raises(SuspectRowsError) as caught:
            cast_column(before.slice(2), None, target)
        assert caught.value.rows.tolist() == suspect
    elif target is Type.FLOAT64 or all(text is None or len(text) < 19 for text in texts):  # else it may be too large
        found = cast_column(before.slice(2), None, target).to_pylist()
        assert found == [None if text is None else cast(text, target) for text in texts]
