"""Responses of unknown length are read up to a limit."""

from __future__ import annotations

import io

import pytest

from spark_tasks.process.bounded_read import TooLongError, read_bounded


def test_a_response_within_the_limit_is_read_completely() -> None:
    assert read_bounded(io.BytesIO(b"x" * 200_000).read1, 200_000) == b"x" * 200_000


def test_a_response_over_the_limit_is_an_error() -> None:
    with pytest.raises(TooLongError, match="more than 0 MiB"):
        read_bounded(io.BytesIO(b"x" * 200_001).read1, 200_000)
