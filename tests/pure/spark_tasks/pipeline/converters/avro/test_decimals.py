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
