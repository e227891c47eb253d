"""Decimals: which Arrow types they have, and numbers whose scale is far from that of their type."""

from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_tasks.data.arrow_types import decimal_type, fitting_decimal, from_arrow, to_arrow, with_child_types
from spark_tasks.data.schema import DECIMAL, Schema, Type
from spark_tasks.errors import DataError


def schema(scale):
    return Schema(Type.BYTES, name=DECIMAL, version=1, parameters=(("scale", str(scale)),))


@pytest.mark.parametrize("scale", [77, -77, 999_999_999, -999_999_999, 2**31 - 1, 2**40])
def test_a_scale_that_arrow_cannot_convert_is_refused(scale):
    with pytest.raises(DataError, match="the scale must be from -76 to 76"):
        to_arrow(schema(scale))


@pytest.mark.parametrize("scale", [-76, -39, -38, 0, 38, 39, 76])
def test_every_other_scale_has_a_type(scale):
    assert dict(from_arrow(to_arrow(schema(scale))).parameters)["scale"] == str(scale)
    for precision, number in ((1, Decimal(0)), (76, Decimal(0) if scale < -75 else Decimal(7).scaleb(-scale))):
        kind = decimal_type(precision, scale)
        assert pa.array([fitting_decimal(number, kind)], kind).to_pylist() == [number]


def test_numbers_with_many_decimal_places_may_have_other_digits_too():
    kind = to_arrow(schema(40))
    assert pa.array([fitting_decimal(Decimal("12.5"), kind)], kind).to_pylist() == [Decimal("12.5")]


numbers = st.decimals(allow_nan=False, allow_infinity=False) | st.builds(
    lambda digits, exponent: Decimal((digits < 0, tuple(map(int, str(abs(digits)))), exponent)),
    st.integers(-10**50, 10**50), st.integers(-10**9, 10**9) | st.integers(-50, 50))


@given(numbers, st.integers(-38, 38))
def test_a_decimal_is_converted_exactly_or_refused(number, scale):
    kind = pa.decimal128(38, scale)
    try:
        found = fitting_decimal(number, kind)
    except ValueError:
        steps = number.as_tuple().exponent + scale
        # A number other than 0 has fewer zeros at its end than digits.
        digits = number.as_tuple().digits
        is_whole = steps >= 0 or not number or (-steps < len(digits) and not any(digits[steps:]))
        assert not is_whole or number.adjusted() + 1 + max(scale, 0) > 38
    else:
        assert found == number
        assert pa.array([found], kind).to_pylist() == [number]


def test_the_types_of_children_are_changed_and_their_fields_kept() -> None:
    """Names, nullability and metadata stay."""
    child = pa.field("a", pa.int32(), nullable=False, metadata={"k": "v"})
    wanted = child.with_type(pa.int64())

    def change(kind: pa.DataType) -> pa.DataType:
        return pa.int64() if kind == pa.int32() else kind

    assert with_child_types(pa.struct([child]), change).field(0).equals(wanted, check_metadata=True)
    assert with_child_types(pa.list_(child), change).value_field.equals(wanted, check_metadata=True)
    both = with_child_types(pa.map_(child, child.with_nullable(True)), change)
    assert both.key_field.equals(wanted, check_metadata=True)
    assert both.item_field.equals(wanted.with_nullable(True), check_metadata=True)
    assert with_child_types(pa.int32(), change) == pa.int32(), "it has no children"
