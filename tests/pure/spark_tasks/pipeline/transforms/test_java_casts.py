"""Casts of texts to numbers give what Java's Cast gave, in columns and alone; long texts are refused at once."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from spark_tasks.data.schema import Type
from spark_tasks.errors import DataError
from spark_tasks.pipeline.transforms.columns_or_rows import SuspectRowsError
from spark_tasks.pipeline.transforms.java_casts import cast, cast_column


@pytest.mark.parametrize(("text", "target", "number"), [
    ("\u0661", Type.INT64, 1), ("\u0661\u0662", Type.INT8, 12), ("0" * 5000 + "1", Type.INT64, 1),
    ("+5", Type.INT8, 5), ("-0", Type.INT8, 0), ("-00", Type.INT16, 0), ("000", Type.INT32, 0),
    ("1.f", Type.FLOAT64, 1.0), (".5", Type.FLOAT32, 0.5), ("+5.e1D", Type.FLOAT64, 50.0),
    ("\x001 ", Type.FLOAT64, 1.0), ("1e999999999999", Type.FLOAT64, float("inf")), ("-0x1.8p1", Type.FLOAT64, -3.0),
    ("1.00000017881393432617187499", Type.FLOAT32, np.float32(1.0000001)),
    ("1.00000017881393432617187500", Type.FLOAT32, np.float32(1.0000002)),
    (Decimal("1.00000017881393432617187499"), Type.FLOAT32, np.float32(1.0000001)),
])  # fmt: skip
def test_texts_are_the_numbers_that_they_are_in_java(text, target, number):
    assert cast(text, target) == number
    try:
        (in_column,) = cast_column(pa.array([text]), None, target).to_pylist() if isinstance(text, str) else [number]
    except SuspectRowsError:
        return
    assert in_column == number


@pytest.mark.parametrize(("text", "target"), [
    ("\u0661.5", Type.FLOAT64), ("\U0001d7cf", Type.INT64), ("\U0001d7cf", Type.FLOAT64), ("-", Type.INT8),
    ("", Type.INT8), ("+", Type.INT64), ("", Type.FLOAT32), ("0x.p1", Type.FLOAT64), ("0x1p", Type.FLOAT64),
    ("1e", Type.FLOAT64), ("NaNd", Type.FLOAT64), ("\xa01", Type.FLOAT64), ("128", Type.INT8),
    ("9" * 10_000, Type.INT64),
])  # fmt: skip
def test_texts_that_are_no_numbers_in_java_are_refused(text, target):
    with pytest.raises(DataError, match="was out of range for requested data type"):
        cast(text, target)


@pytest.mark.parametrize("text", [
    "1" * 1_000_000 + "x", "0x" + "a" * 1_000_000 + "x", "1." + "1" * 1_000_000 + "x", "1" * 1_000_000 + "e",
    "0" * 1_000_000 + "x", "1e" + "1" * 1_000_000 + "x",
], ids=lambda text: text[:3])
def test_a_long_text_is_refused_at_once(text):
    """Each way to divide the digits was tried: a record of a megabyte took hours."""
    for target in (Type.FLOAT64, Type.FLOAT32, Type.INT64):
        with pytest.raises(DataError, match="was out of range"):
            cast(text, target)
