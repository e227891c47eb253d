"""The lag of a consumer group, without Kafka."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import SimpleNamespace
from typing import Any

import pytest
from kafka import TopicPartition
from kafka.admin import OffsetSpec

from spark_tasks.errors import ConfigError
from spark_tasks.java.regex import compile_java
from spark_tasks.kafka.admin import KafkaAdmin
from spark_tasks.kafka.group_lag import group_lag
from spark_tasks.kafka.group_settings import ConsumerSettings

SLOW = "a" * 40


class Topics:
    """A cluster whose topics have one partition with ten records each, of which the group has read four of t1."""

    def describe_topics(self, topics: Iterable[str] | None = None) -> list[dict[str, Any]]:
        return [{"name": name, "is_internal": name == "t_internal", "partitions": [{"partition_index": 0}]}
                for name in topics or ("t1", "t2", "other", "t_internal", SLOW)]

    def list_group_offsets(self, groups: Mapping[str, None]) -> dict[str, Any]:
        return {group: {TopicPartition("t1", 0): SimpleNamespace(offset=4)} for group in groups}

    def list_partition_offsets(
        self, specs: Mapping[TopicPartition, OffsetSpec], _isolation: str
    ) -> dict[TopicPartition, Any]:
        return {at: SimpleNamespace(offset=10 if spec is OffsetSpec.LATEST else 0) for at, spec in specs.items()}


@pytest.mark.parametrize(("topics", "lag"), [
    ({"topics": ("t1",)}, (6, 1)), ({"pattern": compile_java("t.*")}, (16, 2)),
    ({"pattern": compile_java("t.*"), "exclude_internal_topics": False}, (26, 3)),
    ({"pattern": compile_java("none")}, (0, 0)),
])
def test_the_lag_is_that_of_the_topics_that_the_group_reads(topics: dict[str, Any], lag: tuple[int, int]) -> None:
    assert group_lag(KafkaAdmin(Topics()), ConsumerSettings("g", {}, **topics)) == lag


def test_a_pattern_that_takes_long_has_no_lag() -> None:
    with pytest.raises(ConfigError, match=rf"^with the topic {SLOW}, topics\.regex takes too long to match; "):
        group_lag(KafkaAdmin(Topics()), ConsumerSettings("g", {}, pattern=compile_java("(a|aa)+[bc]")))
