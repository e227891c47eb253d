"""Bodies that Java workers could not read again are refused."""

from __future__ import annotations

import pytest

from rest.json_text import UnusableJsonError, loads
from spark_tasks.limits import MAX_NAME_LENGTH


@pytest.mark.parametrize("text", ['{"a":[{"NAME":1}]}', '{"NAME":null}'])
def test_a_name_that_is_too_long_is_refused(text: str) -> None:
    longest = "k" * (MAX_NAME_LENGTH - 2) + "é"  # the limit is in bytes
    loads(text.replace("NAME", longest).encode())
    with pytest.raises(UnusableJsonError, match="50000"):
        loads(text.replace("NAME", longest + "k").encode())


def test_a_long_text_is_not_a_name() -> None:
    assert loads(b'{"a":["' + b"v" * (MAX_NAME_LENGTH + 1) + b'"]}')["a"] != []
