"""One double and a column of them have the same text: Java's."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from spark_tasks.java.double import java_double
from spark_tasks.java.numbers import float_texts


@given(st.floats())
@example(5e-324)
@example(-1e-323)
@example(1.5e-323)
@example(-0.0)
def test_one_and_a_column_have_the_same_text(value):
    assert java_double(value) == float_texts(pa.array([value]))[0].as_py()


def test_doubles_of_numpy_are_doubles():
    assert [java_double(np.float64(value)) for value in (0.5, 1e22)] == ["0.5", "1.0E22"]


@pytest.mark.parametrize(("value", "text"), [
    (0.001, "0.001"), (0.00099, "9.9E-4"), (1e7, "1.0E7"), (9999999.0, "9999999.0"), (1e22, "1.0E22"),
    (-12345678.5, "-1.23456785E7"), (5e-324, "4.9E-324"), (1.7976931348623157e308, "1.7976931348623157E308"),
])
def test_java_prints(value, text):
    assert java_double(value) == text
