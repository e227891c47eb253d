"""Lines of values: of several small batches together, the same as of each batch."""

import pyarrow as pa
from hypothesis import example, given
from hypothesis import strategies as st

from spark_tasks.connectors.file_stream.sink import LineWriter
from spark_tasks.connectors.lines import lines_of_values, to_lines

COLUMNS = (
    pa.array([{"a": 1}, None, {"a": 3}]), pa.array(["x", "", None]), pa.array([b"\xff", None, b""]),
    pa.array([1.5, 2.0, None]), pa.nulls(3),
)
batches = st.builds(lambda column, begin, size: pa.record_batch({"value": COLUMNS[column].slice(begin, size)}),
                    st.integers(0, 4), st.integers(0, 2), st.integers(0, 3))


def lines(batch):
    return to_lines(batch.column("value"), batch.schema.field("value").metadata).to_pybytes()


@example([pa.record_batch({"value": COLUMNS[n].slice(at, 1)}) for at in range(3) for n in (0, 2, 1, 2, 3, 4, 0)])
@given(st.lists(batches, min_size=1, max_size=20))
def test_batches_with_other_schemas_keep_their_order(some):
    assert lines_of_values(some).to_pybytes() == b"".join(map(lines, some))


def test_small_and_large_batches_are_written_in_order(tmp_path):
    large = pa.record_batch({"value": pa.array([f"line {n}" for n in range(100)])})
    small = [pa.record_batch({"value": COLUMNS[n % 2].slice(n % 3, 1)}) for n in range(4200)]
    some = [*small[:7], large, *small, large, large, small[0]]
    written = LineWriter(str(tmp_path / "out")).write(iter(some))
    assert (tmp_path / "out").read_bytes() == b"".join(map(lines, some))
    assert written.rows == sum(map(len, some))
