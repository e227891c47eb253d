"""Creates the topics of a Java source's records in the background: the task can be paused and stopped meanwhile, even
if brokers do not respond.
"""

from __future__ import annotations

import threading
from concurrent.futures import Future

from spark_tasks.futures import complete, ended, fail, running
from spark_tasks.kafka.cluster import KafkaCluster
from spark_tasks.kafka.topic_creation import TopicCreation


class TopicRequests:
    """The requests of one task, at most one for each topic."""

    def __init__(self, creation: TopicCreation, cluster: KafkaCluster) -> None:
        self._creation = creation
        self._cluster = cluster
        self._open: dict[str, Future[None]] = {}

    def create(self, topic: str, seconds: float) -> bool:
        """Creates the topic unless it exists. Returns False if that takes longer; the next call waits for the same
        request. Raises ConnectError; the next call then sends another one.
        """
        request = self._open.get(topic)
        if request is None:
            request = self._open[topic] = running()
            threading.Thread(target=self._run, args=(topic, request), name=f"create-{topic}", daemon=True).start()
        if not ended(request, seconds):
            return False
        del self._open[topic]
        request.result()
        return True

    def _run(self, topic: str, request: Future[None]) -> None:
        try:
            self._creation.ensure(self._cluster, topic)
        except Exception as error:  # noqa: BLE001 - the task handles it
            fail(request, error)
        else:
            complete(request, None)
