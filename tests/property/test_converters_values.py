"""Properties of the smaller parts: header values, lines, intervals."""

import os
import re
import tempfile

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from spark_tasks.connectors.file_stream.line_ends import last_line_end
from spark_tasks.connectors.intervals import SeenNumbers, merged
from spark_tasks.connectors.lines import split_lines
from spark_tasks.pipeline.converters import values
from spark_tasks.pipeline.converters.simple_header import SimpleHeaderConverter

WILD = st.text(alphabet='{}[]":,\\ tnrufalse0123456789.-+eE', max_size=24)


@given(st.one_of(st.text(max_size=20), WILD))
def test_every_header_text_is_parsed_and_printed(text):
    schema, value = SimpleHeaderConverter().to_connect_header("t", "h", text.encode("utf-8", "replace"))
    assert (schema is None) == (value is None)
    values.to_string(value)


LINES = st.lists(st.sampled_from([b"a", b"bc", b"\n", b"\r", b"\r\n", "é".encode(), b""]), max_size=30).map(b"".join)


def reference(data, final):
    """Lines and bytes used, by a regular expression."""
    end = 0
    lines = []
    for match in re.finditer(rb"\r\n|\r|\n", data):
        if match.group() == b"\r" and match.end() == len(data) and not final:
            break
        lines.append(data[end : match.start()].decode())
        end = match.end()
    return lines, end


@given(LINES, st.booleans())
def test_lines_are_split_as_java_splits_them(data, final):
    lines, used = split_lines(np.frombuffer(data, np.uint8), final=final)
    assert (lines.to_pylist(), used) == reference(data, final)


@given(LINES, st.integers(0, 10), st.integers(1, 40))
def test_last_line_end_is_a_line_end_within_the_limit(data, start, limit):
    ends = [0]
    while True:
        _, used = reference(data[ends[-1] :], final=False)
        one = re.match(rb"[^\r\n]*(\r\n|\r|\n)", data[ends[-1] :])
        if not used or one is None or one.end() > used:
            break
        ends.append(ends[-1] + one.end())
    begin = ends[min(start, len(ends) - 1)]
    with tempfile.TemporaryFile() as file:
        os.write(file.fileno(), data)
        end = last_line_end(file.fileno(), begin, min(len(data), begin + limit), len(data))
    after = [e for e in ends if e > begin]
    within = [e for e in after if e <= begin + limit]
    cut = [e for e in after if e == begin + limit + 1 and data[e - 2 : e] == b"\r\n"]
    assert end == (cut or within or after or [begin])[-1 if cut or within else 0]


@given(
    st.lists(
        st.tuples(st.integers(0, 30), st.integers(0, 5)).map(lambda pair: (pair[0], pair[0] + pair[1])), max_size=12
    )
)
def test_duplicate_and_missing_numbers_are_counted_exactly(runs):
    seen, numbers = SeenNumbers(), []
    for run in runs:
        seen = seen.after(run)
        numbers += range(run[0], run[1] + 1)
    assert {n for a, b in seen.seen for n in range(a, b + 1)} == set(numbers)
    assert seen.records == len(numbers)
    assert seen.duplicates == len(numbers) - len(set(numbers))
    assert seen.missing == (max(numbers) + 1 if numbers else 0) - len(set(numbers))
    assert merged(seen.seen) == seen.seen
    assert SeenNumbers.from_json(seen.to_json()) == seen
