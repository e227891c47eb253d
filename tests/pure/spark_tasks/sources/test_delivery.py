"""Which offsets an at-least-once delivery writes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import pytest

from spark_tasks.errors import RetriableError
from spark_tasks.kafka.cluster import KafkaCluster
from spark_tasks.sources.delivery import AtLeastOnce
from tests.rigs.tasks import MemoryOffsets


class Uncertain(MemoryOffsets):
    """Writes arrive, but with `failing` without an answer."""

    failing = False

    def begin_write(self, offsets: Any) -> Callable[[], None]:
        super().begin_write(offsets)
        return self.answer

    def answer(self) -> None:
        if self.failing:
            raise RetriableError("no answer")


def test_an_offset_is_written_again_after_a_write_that_may_have_arrived() -> None:
    """It was compared to the last one that was acknowledged, and the topic kept the later one."""
    offsets = Uncertain()
    delivery = AtLeastOnce(cast("KafkaCluster", None), offsets, 60_000)
    delivery.commit([({"p": 1}, {"n": 1})])
    offsets.failing = True
    with pytest.raises(RetriableError):
        delivery.commit([({"p": 1}, {"n": 2})])
    offsets.failing = False
    delivery.commit([({"p": 1}, {"n": 1})])
    assert [offset["n"] for _, offset in offsets.written] == [1, 2, 1]
    delivery.commit([({"p": 1}, {"n": 1})])
    assert len(offsets.written) == 3, "this one is acknowledged"
