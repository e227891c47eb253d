"""Which names brokers accept."""

from __future__ import annotations

import pytest

from spark_tasks.kafka.topic_names import is_valid_topic


@pytest.mark.parametrize(("name", "valid"), [
    ("a.B_c-1", True), ("a" * 249, True), ("...", True),
    ("", False), (".", False), ("..", False), ("a" * 250, False), ("a b", False), ("ä", False), ("a\n", False),
])
def test_names_are_checked_as_brokers_do(name: str, valid: bool) -> None:
    assert is_valid_topic(name) == valid
