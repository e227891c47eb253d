"""Decimals as the bytes of their unscaled value."""

from decimal import Decimal

import pyarrow as pa
import pytest

from spark_tasks.pipeline.converters.avro.decimals import from_bytes
from spark_tasks.pipeline.converters.base import BadRowError


@pytest.mark.parametrize("kind", [pa.decimal128(38, 2), pa.decimal256(76, 2)])
@pytest.mark.parametrize(("wrong", "words"), [
    (b"", "empty"), (b"\x7f" * 33, "256 bits"), (b"\x80" * 700_000, "256 bits"),
])
def test_bytes_that_are_not_a_decimal_are_one_bad_record(kind, wrong, words):
    padded = b"\xff" * 700_000 + b"\x85"
    with pytest.raises(BadRowError, match=words) as bad:
        from_bytes(pa.array([b"\1", None, padded, wrong, b"\1"]), kind)
    assert bad.value.row == 3
    assert from_bytes(pa.array([b"\1", None, padded]), kind).to_pylist() == [Decimal("0.01"), None, Decimal("-1.23")]


@pytest.mark.parametrize("precision", [1, 2, 3, 5, 10, 37, 38, 39, 75, 76])
def test_the_first_number_with_too_many_digits_is_the_bad_one(precision):
    """Numbers with so few bytes that they fit are not looked at before."""
    kind = (pa.decimal128 if precision <= 38 else pa.decimal256)(precision, 1)
    edges = [number for size in range(1, 33) for number in (2 ** (8 * size - 1) - 1, -(2 ** (8 * size - 1)))]
    for number in (*edges, 10**precision - 1, -(10**precision) + 1, 10**precision, -(10**precision)):
        encoded = number.to_bytes(number.bit_length() // 8 + 1, "big", signed=True)
        if abs(number) < 10**precision:
            found = from_bytes(pa.array([b"\1", encoded]), kind).to_pylist()
            assert found[1] == Decimal((int(number < 0), tuple(map(int, str(abs(number)))), -1))
        else:
            with pytest.raises(BadRowError, match=r"precision|256 bits") as bad:
                from_bytes(pa.array([b"\1", None, encoded, encoded, b""]), kind)
            assert bad.value.row == 2
