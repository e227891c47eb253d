"""The topic of a task's dead letter queue."""

from __future__ import annotations

from spark_tasks.config.topic_groups import TopicSettings
from spark_tasks.dead_letters.error_handling import ErrorHandling
from spark_tasks.errors import ConfigError, ConnectError, PermanentError, RetriableError
from spark_tasks.kafka.errors import InvalidTopicError, KafkaAuthorizationError, UnknownTopicError
from spark_tasks.kafka.shared_clusters import shared_cluster
from spark_tasks.kafka.topic_creation import create_topic
from spark_tasks.kafka.topic_names import is_valid_topic


class QueueTopic:
    """Creates the topic if it does not exist: before the first batch, and after it was deleted."""

    def __init__(self, handling: ErrorHandling) -> None:
        self._handling = handling
        self._exists = not handling.queue

    def prepare(self) -> None:
        """Called before each batch. Raises RetriableError, ConnectError."""
        if self._exists:
            return
        handling, queue = self._handling, self._handling.queue
        if not is_valid_topic(queue):
            raise ConfigError(f"errors.deadletterqueue.topic.name: {InvalidTopicError.of(queue)}")
        try:
            try:
                shared_cluster(handling.client).partitions(queue)
            except UnknownTopicError:
                create_topic(handling.admin, queue, TopicSettings(1, handling.replication_factor))
        except RetriableError:
            raise
        except (ConnectError, ConfigError) as error:
            kind = PermanentError if isinstance(error, KafkaAuthorizationError) else ConnectError
            raise kind(f"Could not initialize dead letter queue with topic={queue}: {error}") from error
        self._exists = True

    def batch_failed(self, error: Exception) -> None:
        """Called with the error of a batch: if it says that a topic does not exist, this one is looked up again."""
        if self._handling.queue and isinstance(error, UnknownTopicError):
            shared_cluster(self._handling.client).forget_leaders(self._handling.queue)
            self._exists = False
