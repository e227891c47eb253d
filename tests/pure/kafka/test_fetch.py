"""Fetching against answers that no broker should give."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from kafka.protocol.consumer import FetchResponse

from spark_tasks.kafka.errors import KafkaRefusedError
from spark_tasks.kafka.fetch import read_range
from tests.pure.kafka.test_sender import Cluster, Io


class FetchIo(Io):
    async def bootstrap(self, _timeout_ms: float) -> None:
        """Nothing has to be found."""

    async def send(self, _request: Any, _node: Any, *, lane: str) -> FetchResponse:
        assert lane == "fetch"
        return self.broker


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    found = Cluster(None)
    found.io.close()
    found.io = FetchIo(FetchResponse(throttle_time_ms=0, error_code=0, session_id=0, responses=[]))
    yield found
    found.io.close()


def test_an_answer_without_the_partition_is_an_error_and_no_endless_wait(cluster: Cluster) -> None:
    with pytest.raises(KafkaRefusedError, match=r"^fetching logs-0 at 3: .*index out of range"):
        list(read_range(cluster, "logs", 0, 3, 9))
