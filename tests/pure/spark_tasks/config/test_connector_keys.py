"""What a connector's configuration says, whichever part of heeler reads it."""

from __future__ import annotations

from typing import Any

import pytest

from spark_tasks.config.connector_keys import queue_of, topics_of
from spark_tasks.trial import topic_of_records


@pytest.mark.parametrize(("config", "topics"), [
    ({"topics": " a, b ,a,"}, ("a", "b")), ({"topics": ""}, ()), ({"topics": " , "}, ()), ({"topics": None}, ()),
    ({"topics.regex": "a"}, ()),
])
def test_the_topics_of_a_sink(config: dict[str, Any], topics: tuple[str, ...]) -> None:
    assert topics_of(config) == topics
    assert topic_of_records(config) == (topics[0] if topics else "topic")


@pytest.mark.parametrize(("value", "queue"), [(" d ", "d"), ("", ""), (None, "")])
def test_the_dead_letter_queue_of_a_connector(value: Any, queue: str) -> None:
    assert queue_of({"errors.deadletterqueue.topic.name": value}) == queue
