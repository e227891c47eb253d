"""The offsets of consumer groups, without Kafka."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import SimpleNamespace
from typing import Any, NoReturn

import pytest
from kafka import TopicPartition
from kafka.admin import OffsetSpec
from kafka.errors import GroupIdNotFoundError

from spark_tasks.errors import ConfigError
from spark_tasks.java.regex import compile_java
from spark_tasks.kafka import group_offsets
from spark_tasks.kafka.group_offsets import GroupOffsets, OffsetNotChangedError
from spark_tasks.kafka.group_settings import ConsumerSettings


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


SLOW = "a" * 40


class Topics:
    """A cluster whose topics have one partition with ten records each, of which the group has read four of t1."""

    def __init__(self, **_settings: Any) -> None:
        pass

    def describe_topics(self, topics: Iterable[str] | None = None) -> list[dict[str, Any]]:
        return [{"name": name, "is_internal": name == "t_internal", "partitions": [{"partition_index": 0}]}
                for name in topics or ("t1", "t2", "other", "t_internal", SLOW)]

    def list_group_offsets(self, groups: Mapping[str, None]) -> dict[str, Any]:
        return {group: {TopicPartition("t1", 0): SimpleNamespace(offset=4)} for group in groups}

    def list_partition_offsets(self, specs: Mapping[TopicPartition, OffsetSpec]) -> dict[TopicPartition, Any]:
        return {at: SimpleNamespace(offset=10 if spec is OffsetSpec.LATEST else 0) for at, spec in specs.items()}

    def close(self) -> None:
        pass


@pytest.mark.parametrize(("topics", "lag"), [
    ({"topics": ("t1",)}, (6, 1)), ({"pattern": compile_java("t.*")}, (16, 2)),
    ({"pattern": compile_java("t.*"), "exclude_internal_topics": False}, (26, 3)),
    ({"pattern": compile_java("none")}, (0, 0)),
])
def test_the_lag_is_that_of_the_topics_that_the_group_reads(
        monkeypatch: pytest.MonkeyPatch, topics: dict[str, Any], lag: tuple[int, int]) -> None:
    monkeypatch.setattr(group_offsets, "KafkaAdminClient", Topics)
    with GroupOffsets({"bootstrap.servers": "none:1"}) as groups:
        assert groups.lag(ConsumerSettings("g", {}, **topics)) == lag


def test_a_pattern_that_takes_long_has_no_lag(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_offsets, "KafkaAdminClient", Topics)
    with (GroupOffsets({"bootstrap.servers": "none:1"}) as groups,
          pytest.raises(ConfigError, match=rf"^with the topic {SLOW}, topics\.regex takes too long to match; ")):
        groups.lag(ConsumerSettings("g", {}, pattern=compile_java("(a|aa)+[bc]")))
