"""The offsets of consumer groups, without Kafka."""

from __future__ import annotations

from typing import Any, NoReturn

import pytest
from kafka.errors import GroupIdNotFoundError

from spark_tasks.kafka import group_offsets
from spark_tasks.kafka.group_offsets import GroupOffsets, OffsetNotChangedError


class NoGroups:
    """Kafka's answers if no group exists."""

    def __init__(self, **_settings: Any) -> None:
        pass

    def delete_group_offsets(self, *_args: Any) -> NoReturn:
        raise GroupIdNotFoundError("OffsetDeleteRequest failed with response ...")

    def close(self) -> None:
        pass


def test_no_offset_can_be_removed_from_a_group_that_does_not_exist(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_offsets, "KafkaAdminClient", NoGroups)
    with (GroupOffsets({"bootstrap.servers": "none:1"}) as groups,
          pytest.raises(OffsetNotChangedError, match=r"^GroupIdNotFoundError$")):
        groups.alter("g", {("t", 0): None})
