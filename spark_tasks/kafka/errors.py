"""Kafka's errors as the data plane meets them: what may be tried again, and what may not."""

from __future__ import annotations

import kafka.errors as protocol

from spark_tasks.errors import ConnectError, RetriableError


class KafkaUnavailableError(RetriableError):
    """No answer, or none but retriable errors, until the deadline. Trying again later may work."""


class KafkaRefusedError(ConnectError):
    """A broker answered with an error that repeating the request does not cure. `code` is Kafka's error code."""

    def __init__(self, message: str, code: int = -1) -> None:
        super().__init__(message)
        self.code = code

    def __reduce__(self) -> tuple[type[KafkaRefusedError], tuple[str, int]]:
        return type(self), (str(self), self.code)


class KafkaAuthorizationError(KafkaRefusedError):
    """The principal may not do that, or could not log in."""

    permanent = True


class UnknownTopicError(RetriableError):
    """The topic (or partition) does not exist, or not yet, or this principal may not see it."""


class ProducerFencedError(KafkaRefusedError):
    """A newer producer epoch exists: another task has taken over the transactional id, or the transaction was
    aborted under this producer. Nothing of the batch in question counts.
    """


class OutOfOrderSequenceError(KafkaRefusedError):
    """The broker expects another sequence number: batches were lost, or two writers share a producer id."""


class TransactionAbortableError(KafkaRefusedError, RetriableError):
    """The transaction cannot go on, but after an abort the next one may (KIP-890)."""


class OffsetOutOfRangeError(ConnectError):
    """The offset asked for is not in the log, which reaches from `log_start` (inclusive) to `log_end` (exclusive)."""

    def __init__(self, topic: str, partition: int, offset: int, log_start: int, log_end: int) -> None:
        super().__init__(
            f"offset {offset} of {topic}-{partition} is not in its log, which has offsets {log_start} to {log_end - 1}",
        )
        self.topic = topic
        self.partition = partition
        self.offset = offset
        self.log_start = log_start
        self.log_end = log_end

    def __reduce__(self) -> tuple[type[OffsetOutOfRangeError], tuple[str, int, int, int, int]]:
        return type(self), (self.topic, self.partition, self.offset, self.log_start, self.log_end)


_FENCED = (protocol.ProducerFencedError, protocol.InvalidProducerEpochError, protocol.TransactionCoordinatorFencedError)
_OUT_OF_ORDER = (protocol.OutOfOrderSequenceNumberError, protocol.UnknownProducerIdError)
_ABORTABLE = (protocol.TransactionAbortableError, protocol.InvalidTxnStateError, protocol.InvalidProducerIdMappingError)
_AUTHORIZATION = (protocol.AuthorizationError, protocol.SaslAuthenticationFailedError)


def is_retriable(error: BaseException) -> bool:
    """Whether the same request may succeed a little later, perhaps at another broker."""
    return isinstance(error, (protocol.RetriableError, protocol.UnknownBrokerIdError, OSError))


def translated(error: BaseException, doing: str, why: str | None = None) -> ConnectError:
    """kafka-python's error as one of this project's; `doing` says what was tried, `why` more than the error does."""
    if isinstance(error, ConnectError):
        return error
    text = f"{doing}: {why or error}"
    code = int(getattr(error, "errno", -1) or -1)
    if isinstance(error, _FENCED):
        return ProducerFencedError(text, code)
    if isinstance(error, _OUT_OF_ORDER):
        return OutOfOrderSequenceError(text, code)
    if isinstance(error, _ABORTABLE):
        return TransactionAbortableError(text, code)
    if isinstance(error, _AUTHORIZATION):
        return KafkaAuthorizationError(text, code)
    if isinstance(error, protocol.UnknownTopicOrPartitionError):
        return UnknownTopicError(text)
    if is_retriable(error):
        return KafkaUnavailableError(text)
    return KafkaRefusedError(text, code)


def join_refusal(error: BaseException, group_id: str, session_timeout_ms: int, key: str = "session.timeout.ms") -> str:
    """Why a broker refused a JoinGroup, in terms of settings; `key` is where the session time-out was set."""
    if isinstance(error, protocol.InvalidSessionTimeoutError):
        return (f"Invalid value {session_timeout_ms} for configuration {key}: the brokers allow what lies between "
                "their group.min.session.timeout.ms and group.max.session.timeout.ms (6000 and 1800000 unless they are "
                "configured otherwise); set it within that, or change theirs")
    if isinstance(error, protocol.InconsistentGroupProtocolError):
        return (f"{error}; the members of the group {group_id} share their work in another way (connect.protocol, "
                "partition.assignment.strategy), or it is a group of another kind and its name is taken")
    if isinstance(error, protocol.GroupAuthorizationFailedError):
        return f"{error}; the user of this client needs the right to READ the group {group_id}"
    if isinstance(error, protocol.GroupMaxSizeReachedError):
        return f"{error}; the brokers' group.max.size bounds the members of the group {group_id}"
    if isinstance(error, protocol.UnknownError):
        return (f"{error}; the brokers give no reason, but their log does. They do so where what all members of the "
                f"group {group_id} say and are given does not fit into one record of the topic __consumer_offsets "
                "(its max.message.bytes, their message.max.bytes)")
    return str(error)
