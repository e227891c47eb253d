"""Topics that are created in the background."""

from __future__ import annotations

import threading
from types import SimpleNamespace

import pytest

from heeler.java_host.topic_requests import TopicRequests
from spark_tasks.kafka.errors import KafkaAuthorizationError


def test_a_topic_that_cannot_be_created_is_an_error_and_is_requested_again():
    errors = [KafkaAuthorizationError("not for you")]

    def ensure(_cluster, _topic):
        if errors:
            raise errors.pop()

    requests = TopicRequests(SimpleNamespace(ensure=ensure), None)
    with pytest.raises(KafkaAuthorizationError):
        requests.create("t", 60)
    assert requests.create("t", 60)


def test_a_topic_whose_request_hangs_delays_no_other():
    responds = threading.Event()
    requests = TopicRequests(SimpleNamespace(ensure=lambda _cluster, topic: topic == "fast" or responds.wait(60)), None)
    assert not requests.create("slow", 0.01)
    assert requests.create("fast", 60)
    responds.set()
    assert requests.create("slow", 60)
