"""Writes one dead letter for each bad record of a sink that stores offsets itself, whatever fails in between.

The letters of a batch cannot be in one transaction with the sink. So a batch that is repeated, after a failure or by
another task, looks in the queue for letters of its records, and writes only those that are missing. Its producer has a
transactional id of the partition: a late producer of an earlier attempt is fenced before the search begins.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Container, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from typing_extensions import override

from spark_tasks.dead_letters.error_handling import ErrorHandling
from spark_tasks.dead_letters.exactly_once.letter_offsets import WrittenLetters
from spark_tasks.dead_letters.letters import DeadLetters
from spark_tasks.dead_letters.queue_writes import write_apart
from spark_tasks.dead_letters.refusals import Refusals
from spark_tasks.errors import RetriableError
from spark_tasks.kafka.append import Appender
from spark_tasks.kafka.cluster import KafkaCluster, TopicPartition
from spark_tasks.kafka.errors import KafkaAuthorizationError, OffsetOutOfRangeError, ProducerFencedError
from spark_tasks.kafka.fetch import read_range
from spark_tasks.kafka.pending_batch import OnRefusal
from spark_tasks.kafka.shared_clusters import shared_cluster
from spark_tasks.kafka.transactions import TransactionOwner
from spark_tasks.process.rate_limited_log import RateLimitedLog

_logger = logging.getLogger(__name__)
_warnings = RateLimitedLog()

Ends = tuple[int, ...]
"""An offset of each partition of the queue."""

_SEARCH_MS: Final = 20_000  # without progress; then the batch is repeated
_IN_FLIGHT: Final = 5  # requests, the maximum of an idempotent producer


class LettersTakenOverError(RetriableError):
    """Another attempt for the same partition writes its letters now."""


@dataclass(frozen=True, slots=True)
class LettersOnce:
    """How to write the letters of one partition's records. `since`: the ends of the queue at a time when no record from
    the start of the batch on had a letter.
    """

    transactional_id: str
    since: Ends


class Search(NamedTuple):
    """What a batch has found in the queue before it wrote its own letters. `ends`: the queue's. `last`: the offset of
    the last record of the partition that had a letter then, -1 for none: one of the batch, or after it, if an earlier
    attempt was longer, or before it.
    """

    ends: Ends
    last: int


def queue_ends(handling: ErrorHandling) -> Ends:
    """The current ends of the queue. Raises ConnectErrors of Kafka."""
    return _ends(shared_cluster(handling.client), handling.queue)


def _ends(cluster: KafkaCluster, queue: str) -> Ends:
    partitions = [(queue, number) for number in cluster.partitions(queue)]
    ends = cluster.offsets(partitions, "latest")
    return tuple(ends[place] for place in partitions)


class OnceSender(ABC):
    """Writes the letters of one batch of a partition that the queue does not have yet. `place`: the partition of the
    bad records. `search`: what is known of the letters, for the next batch; None before the first letter. `unsure`:
    it has to be known even if there are none.
    """

    at_most: int | None = None  # letters of a batch; it ends with the last of them

    def __init__(
        self, handling: ErrorHandling, place: TopicPartition, transactional_id: str, *, unsure: bool = False
    ) -> None:
        self.search: Search | WrittenLetters | None = None
        self._handling = handling
        self._place = place
        self._transactional_id = transactional_id
        self._unsure = unsure
        self._owner: TransactionOwner | None = None
        self._found: Container[int] = ()  # the offsets of the records that had a letter
        self._apart = False

    def send(self, refusals: Refusals, before: int | None = None) -> None:
        """Writes the queued letters of records before the offset `before`, by default all, in one transaction. They are
        those of records after all that were sent earlier. One that Kafka does not take is logged.

        Raises ConnectErrors of Kafka, and LettersTakenOverError; then nothing else can be sent. Where the producer may
        not use the transactional id, all letters are written, at least once.
        """
        if not refusals.offsets and (self.search is not None or not self._unsure):
            return
        cluster, owner = shared_cluster(self._handling.client), self._fenced()
        if owner is None:
            refusals.send_apart(before)
            return
        try:
            if self.search is None and not self._search(cluster):
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
        """Ends the transaction, if there is one. Other letters are written apart."""
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
        """Sets `search` and `_found`, after earlier attempts were fenced. Returns whether it can."""

    def _commit_with(self, cluster: KafkaCluster, owner: TransactionOwner, letters: pa.RecordBatch) -> bool:  # noqa: ARG002
        """Adds what is committed with these letters to their transaction. Returns whether it may."""
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


class SearchingSender(OnceSender):
    """Finds letters in the queue, by their context headers."""

    def __init__(self, handling: ErrorHandling, place: TopicPartition, once: LettersOnce) -> None:
        super().__init__(handling, place, once.transactional_id)
        self._since = once.since

    @override
    def _search(self, cluster: KafkaCluster) -> bool:
        ends = _ends(cluster, self._handling.queue)
        found = already_written(cluster, self._handling, self._place, self._since, ends)
        self._found, self.search = found, Search(ends, max(found, default=-1))
        return True


class RepeatingSender:
    """As OnceSender, but a batch that is repeated writes its letters again."""

    search: Search | WrittenLetters | None = None
    at_most: int | None = None

    def send(self, refusals: Refusals, before: int | None = None) -> None:
        """Writes the queued letters and waits until they are acknowledged. Raises ConnectErrors of Kafka."""
        refusals.send_apart(before)


def warn_of_repeats(why: str, *arguments: object) -> None:
    """Logs that letters are written at least once. `why`: what the queue's producer lacks, with its `arguments`."""
    text = f"Dead letters may be written twice after a failure: the queue's producer {why}"
    _warnings.log(_logger, logging.WARNING, text, *arguments)


def already_written(
    cluster: KafkaCluster, handling: ErrorHandling, place: TopicPartition, since: Ends, ends: Ends
) -> set[int]:
    """The offsets of the partition's records that have a letter from `since` to `ends`."""
    topic, partition = place
    offsets_with_letter = set[int]()
    for number, end in enumerate(ends):
        start = since[number] if number < len(since) else 0  # the queue has got more partitions
        for raw in _read(cluster, handling.queue, number, start, end):
            letters = DeadLetters.of(raw)
            matches = pc.and_(pc.equal(letters.connector, handling.connector), pc.equal(letters.topic, topic))
            matches = pc.and_(matches, pc.equal(letters.partition, partition))
            matches = pc.and_(matches, pc.is_valid(letters.offset))
            offsets_with_letter.update(letters.offset.filter(pc.fill_null(matches, False)).to_pylist())
    return offsets_with_letter


def _read(cluster: KafkaCluster, queue: str, number: int, start: int, end: int) -> Iterator[pa.RecordBatch]:
    """Committed letters only: the transaction of an earlier attempt has ended. Waits for those of others."""
    try:
        yield from read_range(cluster, queue, number, start, end, isolation="read_committed", timeout_ms=_SEARCH_MS)
    except OffsetOutOfRangeError as error:
        if error.log_start <= start:
            raise
        yield from _read(cluster, queue, number, error.log_start, end)  # the queue's retention
