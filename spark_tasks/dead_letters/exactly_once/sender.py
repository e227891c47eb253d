"""Writes the dead letters of a batch of one partition, exactly once or at least once."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Container
from functools import partial
from typing import Final

import pyarrow as pa

from spark_tasks.dead_letters.error_handling import ErrorHandling
from spark_tasks.dead_letters.exactly_once.plans import KnownLetters
from spark_tasks.dead_letters.queue_writes import write_apart
from spark_tasks.dead_letters.refusals import Refusals
from spark_tasks.errors import RetriableError
from spark_tasks.kafka.append import Appender
from spark_tasks.kafka.cluster import KafkaCluster, TopicPartition
from spark_tasks.kafka.errors import KafkaAuthorizationError, ProducerFencedError
from spark_tasks.kafka.pending_batch import OnRefusal
from spark_tasks.kafka.shared_clusters import shared_cluster
from spark_tasks.kafka.transactions import TransactionOwner
from spark_tasks.process.rate_limited_log import RateLimitedLog

_logger = logging.getLogger(__name__)
_warnings = RateLimitedLog()

_IN_FLIGHT: Final = 5  # requests, the maximum of an idempotent producer


class LettersTakenOverError(RetriableError):
    """Another attempt for the same partition writes its letters now."""


class ExactlyOnceSender(ABC):
    """Writes the letters that the queue does not have yet. `place`: the partition of the bad records. `known`: for the
    task's tracker; None before the first letter. `unsure`: find it out even if there is no letter to write.
    """

    max_letters: int | None = None
    """How many bad records of converters and transforms a batch may have: it ends with the last of them."""

    def __init__(
        self, handling: ErrorHandling, place: TopicPartition, transactional_id: str, *, unsure: bool = False
    ) -> None:
        self.known: KnownLetters | None = None
        self._handling = handling
        self._place = place
        self._transactional_id = transactional_id
        self._unsure = unsure
        self._owner: TransactionOwner | None = None
        self._found: Container[int] = ()  # the offsets of the records that had a letter
        self._apart = False

    def send(self, refusals: Refusals, before: int | None = None) -> None:
        """Writes the queued letters of records before the offset `before`, by default all, in one transaction. Later
        calls have letters of later records only. A letter that a broker rejects is logged.

        Raises ConnectErrors of Kafka, and LettersTakenOverError; then nothing else can be sent. If the producer may not
        use the transactional id, all letters are written, at least once.
        """
        if not refusals.offsets and (self.known is not None or not self._unsure):
            return
        cluster, owner = shared_cluster(self._handling.client), self._fenced()
        if owner is None:
            refusals.send_apart(before)
            return
        try:
            if self.known is None and not self._search(cluster):
                self._give_up()
                refusals.send_apart(before)
                return
            refusals.drop(self._found)
            refusals.send(partial(self._write, cluster, owner), before)
        except ProducerFencedError as error:
            raise LettersTakenOverError(str(error)) from error
        except BaseException:
            self._give_up()
            raise

    def _give_up(self) -> None:
        """Ends the transaction, if there is one. Later letters are written at least once."""
        if self._owner is not None:
            self._owner.give_up()
        self._owner, self._apart = None, True

    def _fenced(self) -> TransactionOwner | None:
        """Returns the owner of the transactional id, after it has fenced earlier attempts; None if it may not."""
        if self._owner is None and not self._apart:
            owner = TransactionOwner(shared_cluster(self._handling.client), self._transactional_id)
            try:
                owner.init()
                self._owner = owner
            except KafkaAuthorizationError as error:
                self._apart = True
                warn_of_repeats("needs WRITE permission on the transactional id %s: %s", self._transactional_id, error)
        return self._owner

    @abstractmethod
    def _search(self, cluster: KafkaCluster) -> bool:
        """Sets `known` and `_found`. Earlier attempts are fenced. Returns False if it may not find them out."""

    def _commit_with(self, cluster: KafkaCluster, owner: TransactionOwner, letters: pa.RecordBatch) -> bool:  # noqa: ARG002
        """Adds offsets to the transaction of these letters. Returns False if it may not."""
        return True

    def _write(
        self, cluster: KafkaCluster, owner: TransactionOwner, queue: str, raw: pa.RecordBatch, on_refusal: OnRefusal
    ) -> None:
        """Writes letters in one transaction."""
        if self._apart or not self._commit_with(cluster, owner, raw):
            self._give_up()
            write_apart(self._handling, queue, raw, on_refusal)
            return
        options = {**self._handling.appender, "acks": -1, "in_flight": _IN_FLIGHT}
        appender = Appender(cluster, owner.identity, sequences=owner.sequences, admit=owner.add_partitions, **options)
        try:
            appender.append(queue, None, raw, on_refusal=on_refusal)
            appender.flush()
        finally:
            appender.close()
        owner.sequences = appender.sequences
        owner.commit()


class AtLeastOnceSender:
    """Like ExactlyOnceSender, but a batch that is repeated writes its letters again."""

    known: KnownLetters | None = None
    max_letters: int | None = None

    def send(self, refusals: Refusals, before: int | None = None) -> None:
        """Writes the queued letters and waits until they are acknowledged. Raises ConnectErrors of Kafka."""
        refusals.send_apart(before)


def warn_of_repeats(why: str, *arguments: object) -> None:
    """Logs that letters are written at least once. `why`: what the queue's producer lacks, with its `arguments`."""
    text = f"Dead letters may be written twice after a failure: the queue's producer {why}"
    _warnings.log(_logger, logging.WARNING, text, *arguments)
