"""An outage of Kafka in the log: one line a minute, not several a second from each of kafka-python's clients."""

from __future__ import annotations

import importlib
import inspect
import logging
from collections.abc import Iterator

import pytest
from kafka import TopicPartition
from kafka.errors import (
    Cancelled,
    GroupAuthorizationFailedError,
    SaslAuthenticationFailedError,
    TransactionalIdAuthorizationFailedError,
)
from kafka.protocol.producer import ProduceRequest
from kafka.protocol.sasl import SaslAuthenticateRequest

from spark_tasks.kafka import log_filters
from spark_tasks.kafka.log_filters import (
    CONNECTION_LINES,
    FOLLOWING_LINES,
    LOGGERS,
    REPEATED_LINE,
    STOP_LINES,
    THROTTLED_LINE,
    WITH_CONTENTS,
    ConnectionLines,
)

MODULES = ("kafka.consumer.fetcher", "kafka.coordinator.base", "kafka.net.connection", "kafka.net.manager",
           "kafka.net.sasl.plain", "kafka.net.transport", "kafka.producer.producer_batch",
           "kafka.producer.transaction_manager")
TP = TopicPartition("t", 0)


@pytest.fixture
def manager() -> Iterator[logging.Logger]:
    """One of kafka-python's loggers, with a filter of its own: that of the process may have used up its minute."""
    logger = logging.getLogger("kafka.net.manager")
    before, filters, logger.filters = logger.level, logger.filters, [ConnectionLines()]
    logger.setLevel(logging.WARNING)
    yield logger
    logger.filters = filters
    logger.setLevel(before)


def test_the_filtered_lines_exist_in_kafka_python() -> None:
    source = "".join(inspect.getsource(importlib.import_module(name)) for name in MODULES)
    lines = (*CONNECTION_LINES, *FOLLOWING_LINES, *STOP_LINES, REPEATED_LINE, THROTTLED_LINE)
    assert [line for line in lines if line not in source] == []
    assert [name for name in LOGGERS if name not in MODULES and f"'{name}'" not in source] == []


def test_delays_by_quotas_are_one_line(manager: logging.Logger, caplog: pytest.LogCaptureFixture) -> None:
    for _ in range(100):
        manager.warning(THROTTLED_LINE, "<connection>", "FetchResponse_v12", 750)
    [record] = caplog.records
    assert record.getMessage().startswith("A quota of the brokers delays requests")


def test_a_client_that_is_closed_logs_no_errors(manager: logging.Logger, caplog: pytest.LogCaptureFixture) -> None:
    manager.error("Error sending %s to node %s [%s]", "HeartbeatRequest_v4", 1, Cancelled())
    manager.error("Unhandled Heartbeat loop error: %s", RuntimeError("NetworkSelector closed!"))
    assert caplog.records == []
    manager.error("Unhandled Heartbeat loop error: %s", KeyError("a defect"))
    assert len(caplog.records) == 1


def test_an_outage_is_one_line(manager: logging.Logger, caplog: pytest.LogCaptureFixture) -> None:
    for _ in range(100):
        manager.error("Connection failed: %s", "KafkaConnectionError: 111 ECONNREFUSED")
        manager.warning("Bootstrap %s not ready; waiting %.2f secs", "bootstrap-0", 1)
    [record] = caplog.records
    assert (record.name, record.levelname) == (log_filters.__name__, "WARNING")
    assert record.getMessage().startswith("Connections to Kafka are failing (111 ECONNREFUSED)")


def test_the_reason_is_quoted_without_the_parenthesis_around_it(
    manager: logging.Logger, caplog: pytest.LogCaptureFixture
) -> None:
    manager.warning("%s: Abort (%s)", "<transport>", "KafkaConnectionError: socket disconnected")
    assert "Connections to Kafka are failing (socket disconnected). Clients" in caplog.text


def test_a_group_without_permission_is_no_line_a_second(
    manager: logging.Logger, caplog: pytest.LogCaptureFixture
) -> None:
    """The error of the worker or task names the permission that is needed, once."""
    manager.error("Group Coordinator Request failed: %s", GroupAuthorizationFailedError("g"))
    assert caplog.text == ""


def test_a_transactional_id_without_permission_is_no_line_for_each_attempt(
    manager: logging.Logger, caplog: pytest.LogCaptureFixture
) -> None:
    """The worker's own warning names the permission that is needed."""
    manager.error(f"Fatal Error handling request FindCoordinatorRequest: {TransactionalIdAuthorizationFailedError()}")
    assert caplog.text == ""


def test_an_unencrypted_login_is_one_line_and_not_one_for_each_connection(
    manager: logging.Logger, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(5):
        manager.warning(REPEATED_LINE)
    assert [record.getMessage() for record in caplog.records] == [REPEATED_LINE]


def test_a_refused_login_is_one_line(manager: logging.Logger, caplog: pytest.LogCaptureFixture) -> None:
    error = SaslAuthenticationFailedError("SaslAuthenticationFailedError: Authentication failed")
    manager.error("%s: Abort (%s)", "<KafkaConnection>", error)
    manager.error("Connection failed: %s", error)
    manager.warning("Bootstrap connection to %s failed: %s (backoff %.2f secs)", "bootstrap-0", error, 1)
    [record] = caplog.records
    assert (record.name, record.levelname, record.getMessage()) == (
        log_filters.__name__, "WARNING", "Kafka rejected a login (Authentication failed)")


def test_other_lines_are_not_filtered(manager: logging.Logger, caplog: pytest.LogCaptureFixture) -> None:
    manager.error("Connection failed: %s", "UnsupportedSaslMechanismError: PLAIN")
    manager.error("Something else: %s", "KafkaConnectionError")
    manager.setLevel(logging.DEBUG)
    manager.error("Connection failed: %s", "KafkaConnectionError: 111 ECONNREFUSED")
    assert [record.name for record in caplog.records] == [manager.name] * 3


def test_the_filter_is_installed_once() -> None:
    log_filters.install()
    log_filters.install()
    for name in LOGGERS:
        assert len([one for one in logging.getLogger(name).filters if isinstance(one, ConnectionLines)]) == 1


@pytest.mark.parametrize("logger", WITH_CONTENTS)
def test_lines_at_debug_have_no_records_and_no_credentials(logger: str, caplog: pytest.LogCaptureFixture) -> None:
    """A record of the config topic contains a connector's passwords before this process knows them."""
    log_filters.install()
    login, written = SaslAuthenticateRequest(auth_bytes=b"\0me\0secret"), ProduceRequest(topic_data=[])
    with caplog.at_level(logging.DEBUG, logger):
        logging.getLogger(logger).debug("%s Send: %r %s %s", "me", b"secret", login, {1: written})
        logging.getLogger(logger).debug("value=%r headers=%r to %s", bytearray(b"secret"), [("a", b"secret")], TP)
        logging.getLogger(logger).debug("Starting with %s", {"client_id": "me", "sasl_plain_password": "secret"})
    first, second, third = (record.getMessage() for record in caplog.records)
    assert third == "Starting with {'client_id': 'me', 'sasl_plain_password': '(hidden)'}"
    assert first == "me Send: '<6 bytes>' SaslAuthenticateRequest(…) {1: 'ProduceRequest(…)'}"
    assert second == f"value='<6 bytes>' headers=[['a', '<6 bytes>']] to {TP}"
