"""What the errors of brokers say to users."""

from __future__ import annotations

import kafka.errors as protocol
import pytest

from spark_tasks.kafka.errors import (
    NOT_A_MEMBER,
    InvalidReplicationFactorError,
    KafkaAuthorizationError,
    KafkaRefusedError,
    KafkaTimedOutError,
    KafkaUnavailableError,
    LoginRefusedError,
    MetadataTooLargeError,
    NotAMemberError,
    UnknownTopicError,
    UnsupportedVersionError,
    join_refusal,
    translated,
    translating,
)

WRITE = "WRITE permission on the topic"


@pytest.mark.parametrize(("error", "needed"), [
    (protocol.TopicAuthorizationFailedError("Request 'CreateTopicsRequest(version=7, …)' failed with …"), WRITE),
    (protocol.TransactionalIdAuthorizationFailedError(), "WRITE permission on the transactional id"),
])
def test_an_error_of_authorization_names_the_permission_that_is_needed(
    error: protocol.KafkaError, needed: str
) -> None:
    found = translated(error, "writing to t-0", needs=WRITE)
    assert isinstance(found, KafkaAuthorizationError)
    assert str(found) == f"writing to t-0: {type(error).__name__}: the principal of this client needs {needed}"


def test_other_errors_say_nothing_about_permissions() -> None:
    for error in (protocol.SaslAuthenticationFailedError("wrong password"), protocol.NotLeaderForPartitionError()):
        assert str(translated(error, "appending to t-0", needs=WRITE)) == f"appending to t-0: {error}"


def test_a_group_with_topics_that_its_member_may_not_read() -> None:
    text = join_refusal(protocol.TopicAuthorizationFailedError("a, b"), "g", 1)
    assert text.endswith("TopicAuthorizationFailedError: a, b; the principal of this client needs READ permission on "
                         "the topics")


@pytest.mark.parametrize(("error", "ours"), [
    (protocol.SaslAuthenticationFailedError("wrong password"), LoginRefusedError),
    (protocol.ClusterAuthorizationFailedError("no"), KafkaAuthorizationError),
    (protocol.InvalidReplicationFactorError("3"), InvalidReplicationFactorError),
    (protocol.UnsupportedVersionError("old"), UnsupportedVersionError),
    (protocol.IncompatibleBrokerVersion("old"), KafkaRefusedError),
    (protocol.UnknownTopicOrPartitionError("t"), UnknownTopicError),
    (protocol.RequestTimedOutError("late"), KafkaTimedOutError),
    (protocol.NotLeaderForPartitionError("t"), KafkaUnavailableError),
    (protocol.InvalidConfigurationError("no such setting"), KafkaRefusedError),
    *((error("moved on"), NotAMemberError) for error in NOT_A_MEMBER),
    (protocol.FencedInstanceIdError("taken over"), KafkaRefusedError),
    (ConnectionResetError("reset by the broker"), KafkaUnavailableError),
])
def test_calls_of_the_library_raise_our_errors_with_its_message(
    error: Exception, ours: type[Exception]
) -> None:
    with pytest.raises(ours) as caught, translating():
        raise error
    assert type(caught.value) is ours
    assert str(caught.value) == str(error)


def test_metadata_that_is_too_large_names_the_brokers_limit() -> None:
    found = translated(protocol.OffsetMetadataTooLargeError(), "committing offsets of consumer group g")
    assert type(found) is MetadataTooLargeError
    assert str(found) == ("committing offsets of consumer group g: the metadata of an offset exceeds the brokers' "
                          "offset.metadata.max.bytes")
