"""Single numbers and columns of numbers have the same texts as in Java."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from spark_tasks.java.double import java_double
from spark_tasks.java.numbers import float_texts, integer_texts


@given(st.floats())
@example(5e-324)
@example(-1e-323)
@example(1.5e-323)
@example(-0.0)
def test_single_doubles_and_columns_have_the_same_text(value):
    assert java_double(value) == float_texts(pa.array([value]))[0].as_py()


@given(st.lists(st.one_of(
    st.none(), st.floats(), st.floats(-2e7, 2e7),
    st.builds(lambda whole, places: whole / 10**places, st.integers(-(10**17), 10**17), st.integers(0, 9)),
    st.builds(lambda whole, places: whole / 10**places, st.integers(-(10**7), 10**7), st.integers(0, 9)),
)))  # fmt: skip
def test_columns_of_doubles_have_javas_texts(values):
    column = pa.array([0.5, *values], pa.float64())[1:]
    assert float_texts(column).to_pylist() == [None if value is None else java_double(value) for value in values]


@given(st.lists(st.one_of(st.none(), st.integers(-(2**63), 2**63 - 1), st.integers(-200, 200))), st.integers(0, 18))
@example([2**63 - 1, -(2**63), 10**18, 10**18 - 1, -(10**18)], 0)
def test_columns_of_integers_have_javas_texts(values, zeros):
    shorter = [None if value is None else int(value / 10**zeros) if zeros else value for value in values]
    column = pa.array([7, *shorter], pa.int64())[1:]
    assert integer_texts(column).to_pylist() == [None if value is None else str(value) for value in shorter]
    small = pa.array([None if value is None else value % 128 for value in shorter], pa.int8())
    assert integer_texts(small).equals(small.cast(pa.string()))


def test_numpy_doubles_have_javas_text():
    assert [java_double(np.float64(value)) for value in (0.5, 1e22)] == ["0.5", "1.0E22"]


@pytest.mark.parametrize(("value", "text"), [
    (0.001, "0.001"), (0.00099, "9.9E-4"), (1e7, "1.0E7"), (9999999.0, "9999999.0"), (1e22, "1.0E22"),
    (-12345678.5, "-1.23456785E7"), (5e-324, "4.9E-324"), (1.7976931348623157e308, "1.7976931348623157E308"),
])
def test_doubles_are_printed_as_in_java(value, text):
    assert java_double(value) == text
