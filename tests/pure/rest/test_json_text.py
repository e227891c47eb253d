"""Bodies that Java workers could not read again are refused."""

from __future__ import annotations

import tracemalloc

import pytest

from rest.json_text import UnusableJsonError, loads
from spark_tasks.limits import MAX_NAME_LENGTH


@pytest.mark.parametrize("text", ['{"a":[{"NAME":1}]}', '{"NAME":null}'])
def test_a_name_that_is_too_long_is_refused(text: str) -> None:
    longest = "k" * (MAX_NAME_LENGTH - 2) + "é"  # the limit is in bytes
    loads(text.replace("NAME", longest).encode())
    with pytest.raises(UnusableJsonError, match="50000"):
        loads(text.replace("NAME", longest + "k").encode())


@pytest.mark.parametrize("number", [b"1", b"-2", b"1.5"])
def test_a_body_of_numbers_takes_little_more_memory_than_its_size(number: bytes) -> None:
    body = b"[" + b",".join([number] * 20_000) + b"]"
    tracemalloc.start()
    read = loads(body)
    memory, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(read) == 20_000
    assert memory < 20 * len(body)


def test_a_long_text_is_not_a_name() -> None:
    assert loads(b'{"a":["' + b"v" * (MAX_NAME_LENGTH + 1) + b'"]}')["a"] != []
