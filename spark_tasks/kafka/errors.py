"""The errors of Kafka clients as ConnectErrors, retriable or not."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, Self

import kafka.errors as protocol
from typing_extensions import override

from spark_tasks.errors import ConnectError, RetriableError


class KafkaUnavailableError(RetriableError):
    """The brokers did not respond, or only with retriable errors, until the deadline."""


class KafkaTimedOutError(KafkaUnavailableError):
    """There was no response in time."""


class KafkaRefusedError(ConnectError):
    """A broker returned an error that is not retriable. `code`: Kafka's error code, -1 if there is none."""

    def __init__(self, message: str, code: int = -1) -> None:
        super().__init__(message)
        self.code = code

    @override
    def __reduce__(self) -> tuple[type[KafkaRefusedError], tuple[str, int]]:
        return type(self), (str(self), self.code)


class KafkaAuthorizationError(KafkaRefusedError):
    """The principal is not authorized, or the broker rejected its login."""

    permanent = True


class LoginRefusedError(KafkaAuthorizationError):
    """The broker rejected the login, or one side the other's certificate."""


class UnsupportedVersionError(KafkaRefusedError):
    """The broker does not support the version of a request."""


class InvalidReplicationFactorError(KafkaRefusedError):
    """A new topic would have more replicas than there are brokers."""


class UnknownTopicError(RetriableError):
    """The topic or partition does not exist (yet), or this principal may not see it."""


class InvalidTopicError(KafkaRefusedError):
    """No topic can have this name."""

    java_class = "org.apache.kafka.common.errors.InvalidTopicException"

    @classmethod
    def of(cls, topic: str) -> Self:
        """Returns the error for a name."""
        return cls(f"{topic!r} is not a valid name of a topic: it may have 1 to 249 letters, digits and the characters "
                   ". _ and -, but must not be . or ..")


class NoSuchPartitionError(KafkaRefusedError):
    """A record has a partition that its topic does not have."""

    java_class = "org.apache.kafka.common.errors.TimeoutException"  # Java's producer waits for the partition

    @classmethod
    def of(cls, topic: str, partition: int, count: int) -> Self:
        """Returns the error for a partition. `count`: the number of the topic's partitions."""
        return cls(f"partition {partition} of topic {topic!r} does not exist; it has partitions 0 to {count - 1}")


class RecordRefusedError(KafkaRefusedError):
    """A broker refuses a record because of what it is, for example one without a key in a compacted topic."""

    java_class = "org.apache.kafka.common.InvalidRecordException"

    @property
    def of_timestamp(self) -> bool:
        """Whether the topic does not allow the record's timestamp."""
        return bool(self.code == protocol.InvalidTimestampError.errno)


class MetadataTooLargeError(KafkaRefusedError):
    """The text that is to be committed with an offset exceeds the broker's offset.metadata.max.bytes."""


class NotAMemberError(RetriableError):
    """The group has rebalanced: this is no longer a member of its current generation and may not commit offsets.
    Another member, or this one after it has joined again, reads the uncommitted records again.
    """


class ProducerFencedError(KafkaRefusedError):
    """There is a newer producer epoch: another task has taken over the transactional id, or the coordinator has aborted
    the transaction. No record of the batch becomes visible.
    """


class OutOfOrderSequenceError(KafkaRefusedError):
    """The broker expects another sequence number: batches were lost, or two producers use the same producer id."""


class SequenceLostError(OutOfOrderSequenceError, RetriableError):
    """As OutOfOrderSequenceError, without a transaction: with a new producer id, the records can be appended again. A
    leader has lost earlier ones, after an unclean election for example. Java's idempotent producer retries, too.
    """


class TransactionAbortableError(KafkaRefusedError, RetriableError):
    """The transaction must be aborted. The next one may succeed (KIP-890)."""


def out_of_log(topic: str, partition: int, offset: int | None, log_start: int, log_end: int) -> str:
    """Returns a sentence for a position that is not in its log. `log_end` is exclusive."""
    has = f"has the offsets {log_start} to {log_end - 1}" if log_end > log_start else f"is empty and ends at {log_end}"
    return f"offset {offset} of {topic}-{partition} is not in its log, which {has}"


class OffsetOutOfRangeError(ConnectError):
    """The requested offset is not in the log, which reaches from `log_start` (inclusive) to `log_end` (exclusive)."""

    def __init__(self, topic: str, partition: int, offset: int, log_start: int, log_end: int) -> None:
        super().__init__(out_of_log(topic, partition, offset, log_start, log_end))
        self.topic = topic
        self.partition = partition
        self.offset = offset
        self.log_start = log_start
        self.log_end = log_end

    @override
    def __reduce__(self) -> tuple[type[OffsetOutOfRangeError], tuple[str, int, int, int, int]]:
        return type(self), (self.topic, self.partition, self.offset, self.log_start, self.log_end)


# kafka-python's errors -> ours; the first row that fits counts
_REFUSALS: tuple[tuple[tuple[type[Exception], ...], type[KafkaRefusedError]], ...] = (
    ((protocol.ProducerFencedError, protocol.InvalidProducerEpochError, protocol.TransactionCoordinatorFencedError),
     ProducerFencedError),
    ((protocol.OutOfOrderSequenceNumberError, protocol.UnknownProducerIdError), OutOfOrderSequenceError),
    ((protocol.TransactionAbortableError, protocol.InvalidTxnStateError, protocol.InvalidProducerIdMappingError),
     TransactionAbortableError),
    ((protocol.SaslAuthenticationFailedError,), LoginRefusedError),
    ((protocol.AuthorizationError,), KafkaAuthorizationError),
    ((protocol.OffsetMetadataTooLargeError,), MetadataTooLargeError),
    ((protocol.InvalidReplicationFactorError,), InvalidReplicationFactorError),
    ((protocol.IncompatibleBrokerVersion,), KafkaRefusedError),  # the library's own, without a request
    ((protocol.UnsupportedVersionError,), UnsupportedVersionError),
)
# Retriable for Kafka's clients, too: a batch was damaged on its way to the broker.
_RETRIABLE = (protocol.RetriableError, protocol.CorruptRecordError, protocol.UnknownBrokerIdError, OSError)
# FENCED_INSTANCE_ID is not one of them: another member has taken over the group.instance.id, and a retry cannot change
# that. It is fatal for Java's consumer, too. To commits without such an id, as in transactions, brokers never reply so.
NOT_A_MEMBER: Final = (
    protocol.CommitFailedError, protocol.RebalanceInProgressError, protocol.UnknownMemberIdError,
    protocol.IllegalGenerationError,
)  # fmt: skip
# Alerts of a broker that does not accept this client. With TLS 1.3, they arrive after the handshake.
_TLS_ALERT = re.compile(
    r"ALERT_(?:\w*CERTIFICATE|UNKNOWN_CA|ACCESS_DENIED|HANDSHAKE_FAILURE|PROTOCOL_VERSION|INSUFFICIENT_SECURITY)")
_RETRIES: tuple[tuple[tuple[type[Exception], ...], type[RetriableError]], ...] = (
    (NOT_A_MEMBER, NotAMemberError),
    ((protocol.UnknownTopicOrPartitionError,), UnknownTopicError),
    ((protocol.KafkaTimeoutError, protocol.RequestTimedOutError), KafkaTimedOutError),
    (_RETRIABLE, KafkaUnavailableError),
)


def tls_refusal(error: BaseException | None) -> protocol.KafkaError | None:
    """Returns the error of a connection that one side refuses because of a certificate or TLS's settings: unlike other
    errors of connections, it does not go away by itself. None for any other error.
    """
    text = str(error)
    if "CERTIFICATE_VERIFY_FAILED" in text:
        return protocol.SaslAuthenticationFailedError(f"the broker's certificate is not trusted: {text}")
    if _TLS_ALERT.search(text):
        return protocol.SaslAuthenticationFailedError(
            f"the broker refuses the TLS connection; it may require another certificate (ssl.keystore.*): {text}")
    return None


class BrokerFailedError(protocol.RetriableError):  # type: ignore[misc]
    """A broker could not read what a consumer requested and does not say why (UNKNOWN_SERVER_ERROR); its remote storage
    may be away, for example. Java's consumers try again, too; producers do not.
    """


def error_of_read(code: int) -> type[protocol.KafkaError]:
    """Returns the class for an error code of a Fetch or ListOffsets response."""
    return BrokerFailedError if code == protocol.UnknownError.errno else protocol.for_code(code)


def is_retriable(error: BaseException) -> bool:
    """Returns whether the same request may succeed a little later, perhaps at another broker."""
    return isinstance(error, _RETRIABLE)


@contextmanager
def translating(doing: str = "", needs: str = "") -> Iterator[None]:
    """A context manager for calls of kafka-python. Raises its errors, and those of the network, as `translated` returns
    them.
    """
    try:
        yield
    except (protocol.KafkaError, OSError) as error:
        raise translated(error, doing, needs=needs) from error


def translated(error: BaseException, doing: str = "", why: str | None = None, needs: str = "") -> ConnectError:
    """Translates an error of kafka-python. `doing`: the attempted action, for the message; `why`: an explanation that
    replaces the error's own text; `needs`: the permission that the action requires.
    """
    if isinstance(error, ConnectError):
        return error
    if isinstance(error, protocol.TransactionalIdAuthorizationFailedError):
        needs = "WRITE permission on the transactional id"
    if needs and isinstance(error, protocol.AuthorizationError):
        why = f"{type(error).__name__}: the principal of this client needs {needs}"
    if isinstance(error, protocol.OffsetMetadataTooLargeError):
        why = "the metadata of an offset exceeds the brokers' offset.metadata.max.bytes"
    text = f"{doing}: {why or error}" if doing else why or str(error)
    code = int(getattr(error, "errno", -1) or -1)
    for kinds, refusal in _REFUSALS:
        if isinstance(error, kinds):
            return refusal(text, code)
    for kinds, retry in _RETRIES:
        if isinstance(error, kinds):
            return retry(text)
    return KafkaRefusedError(text, code)


def join_refusal(error: BaseException, group_id: str, session_timeout_ms: int, key: str = "session.timeout.ms") -> str:
    """Explains why a broker rejected a JoinGroup request, in terms of settings. `key`: the session timeout's key."""
    if isinstance(error, protocol.InvalidSessionTimeoutError):
        return (f"Invalid value {session_timeout_ms} for configuration {key}: the brokers allow values between "
                "their group.min.session.timeout.ms and group.max.session.timeout.ms (by default 6000 and 1800000); "
                "set it within that range, or change the brokers' settings")
    if isinstance(error, protocol.InconsistentGroupProtocolError):
        return (f"{error}; the members of the group {group_id} use another assignment protocol (connect.protocol, "
                "partition.assignment.strategy), or a group of another type already has this name")
    if isinstance(error, protocol.GroupAuthorizationFailedError):
        return f"{error}; the principal of this client needs READ permission on the group {group_id}"
    if isinstance(error, protocol.TopicAuthorizationFailedError):
        return f"{error}; the principal of this client needs READ permission on the topics"
    if isinstance(error, protocol.GroupMaxSizeReachedError):
        return f"{error}; the brokers' group.max.size limits the number of members of the group {group_id}"
    if isinstance(error, protocol.UnknownError):
        return (f"{error}; the brokers give no reason, but their log does. One reason is that the metadata and "
                f"assignments of all members of the group {group_id} do not fit into one record of the topic "
                "__consumer_offsets (its max.message.bytes, the brokers' message.max.bytes)")
    return str(error)
