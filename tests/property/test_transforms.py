"""Transforms have the same results in columns and record by record, for any records."""

from __future__ import annotations

import json
import re

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
from tests.golden.transforms.cases import case
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
