"""Source offsets that a user wants to set."""

from __future__ import annotations

import pytest

from spark_tasks.connectors.offset_checks import check_count
from spark_tasks.errors import ConnectError


@pytest.mark.parametrize("value", [None, -1, True, 1.0, "1"])
def test_what_is_not_a_count_is_refused(value: object) -> None:
    with pytest.raises(ConnectError, match=(
            r"^The value for the 'position' key in the offset should be a non-negative number$")):
        check_count({"position": value}, "position")


def test_a_count_is_accepted() -> None:
    check_count({"position": 0}, "position")
