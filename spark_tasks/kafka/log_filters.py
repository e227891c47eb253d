"""Filters the log of kafka-python: drops noise, and lines that say what heeler logs more clearly.

Lines at DEBUG have no records, which include the configurations of connectors, and no credentials, as in Java. Lines
about lost and refused connections are replaced with one line: while brokers are down, each client logs several a
second. The parts of the worker that an outage affects log its consequences.
"""

from __future__ import annotations

import logging
import math
import re
from typing import Any, Final

from typing_extensions import override

from spark_tasks.process.rate_limited_log import RateLimitedLog

_logger = logging.getLogger(__name__)

SILENT: Final = ("kafka.cluster", "kafka.coordinator.assignors")
"""Loggers whose warnings are harmless: they are about topics that have just been created, or will be."""
EVENT_LOOP: Final = "kafka.net.selector"
"""Warns when one of its steps takes a tenth of a second, which is usual at a start and on a busy machine."""
LOGGERS: Final = (
    "kafka.consumer.fetcher", "kafka.coordinator", "kafka.coordinator.heartbeat", "kafka.net.connection",
    "kafka.net.manager", "kafka.net.sasl.plain", "kafka.net.transport", "kafka.producer.producer_batch",
    "kafka.producer.transaction_manager",
)
CONNECTION_LINES: Final = (
    "%s: Connection lost: %s", "Connection failed: %s", "%s: socket disconnected", "%s: Abort (%s)",
    "Fetch to node %s failed: %s", "Error sending %s to node %s [%s]", "Bootstrap connection to %s failed: %s",
)
"""The beginnings of lines about connections; dropped if their error is a connection error, or a refused login."""
FOLLOWING_LINES: Final = (
    "Bootstrap %s not ready; waiting", "Bootstrap failed: %s", "Marking the coordinator dead",
    "Group Coordinator Request failed: %s",
    "Heartbeat failed for group %s: coordinator (node %s)", "Failed to produce messages to topic-partition",
    "%s: Error receiving network data", "%s: Error sending request data",
    "Attempt to join group %s failed due to fatal error", "Fatal Error handling request",
)
"""The beginnings of lines about consequences; always dropped: heeler logs those that matter itself."""
STOP_LINES: Final = ("Error sending %s to node %s [%s]", "Unhandled Heartbeat loop error: %s")
"""The beginnings of lines that a client may log because it is closed; dropped in that case."""
THROTTLED_LINE: Final = "%s: %s throttled by broker (%d ms)"
"""A warning for each response; replaced with one line a minute."""
REPEATED_LINE: Final = "Sending username and password in the clear"
"""A warning that each new connection repeats; logged once."""
WITH_CONTENTS: Final = (
    "kafka.admin.client", "kafka.net.connection", "kafka.producer.kafka", "kafka.producer.sender",
    "kafka.protocol.parser",
)
"""Loggers whose lines at DEBUG would contain what is sent and received, or a client's settings."""
_CONTENTS: Final = ("ProduceRequest", "FetchResponse", "SaslAuthenticateRequest", "SaslAuthenticateResponse")
_OF_LOGIN: Final = re.compile(r"(?:SaslAuthenticationFailedError: )+(.*)")
_OF_STOP: Final = re.compile(r"Cancelled|NetworkSelector closed")
_OF_CONNECTION: Final = re.compile(r"KafkaConnectionError|NodeNotReadyError|socket disconnected|RequestTimedOut")


class ConnectionLines(logging.Filter):
    """Lets those lines pass only at DEBUG. While connections fail, logs one WARNING a minute."""

    def __init__(self) -> None:
        super().__init__()
        self._limited = RateLimitedLog(max_lines=1)
        self._once = RateLimitedLog(max_lines=1, per_s=math.inf)

    @override
    def filter(self, record: logging.LogRecord) -> bool:
        """Whether a record of kafka-python is logged."""
        template = str(record.msg)
        if logging.getLogger(record.name).isEnabledFor(logging.DEBUG):
            return True
        if template.startswith(FOLLOWING_LINES) or (
            template.startswith(STOP_LINES) and _OF_STOP.search(record.getMessage())
        ):
            return False
        if template == THROTTLED_LINE:
            if self._limited.suppressed("quotas") is not None:
                _logger.warning("A quota of the brokers delays requests of this client (%s); see kafka-configs.sh",
                                _reason(record.getMessage()))
            return False
        if template == REPEATED_LINE:
            return self._once.suppressed(REPEATED_LINE) is not None
        if not template.startswith(CONNECTION_LINES):
            return True
        return self._of_connection(record)

    def _of_connection(self, record: logging.LogRecord) -> bool:
        refused = _OF_LOGIN.search(record.getMessage())
        if refused is not None:
            if self._limited.suppressed("logins") is not None:
                _logger.warning("Kafka rejected a login (%s)", _without_end(refused[1]))
            return False
        if _OF_CONNECTION.search(record.getMessage()) is None:
            return True
        if self._limited.suppressed("connections") is not None:
            _logger.warning("Connections to Kafka are failing (%s). Clients keep trying to reconnect; set "
                            "heeler.log.level.kafka=DEBUG to log each attempt", _reason(record.getMessage()))
        return False


def _without_slow_steps(record: logging.LogRecord) -> bool:
    """Whether to log a line: not if it is about a slow step, unless DEBUG is enabled."""
    enabled = logging.getLogger(EVENT_LOOP).isEnabledFor(logging.DEBUG)
    return enabled or "blocking the event loop" not in str(record.msg)


def without_contents(record: logging.LogRecord) -> bool:
    """Replaces bytes, and messages that contain records or credentials, by what they are."""
    if isinstance(record.args, tuple):
        record.args = tuple(map(_described, record.args))
    elif record.args:  # a single dictionary
        record.args = _described(record.args)
    return True


def _described(argument: Any) -> Any:
    if isinstance(argument, (bytes, bytearray, memoryview)):
        return f"<{len(argument)} bytes>"
    if isinstance(argument, dict):
        return {key: "(hidden)" if "password" in str(key) else _described(value) for key, value in argument.items()}
    if type(argument) in (list, tuple):
        return [_described(item) for item in argument]
    name = type(argument).__name__
    return f"{name}(…)" if name in _CONTENTS else argument


def _reason(line: str) -> str:
    """The last part of a line, such as `111 ECONNREFUSED`; an unmatched parenthesis belongs to what came before."""
    return _without_end(line.rpartition(": ")[2])


def _without_end(text: str) -> str:
    """Without a parenthesis that was opened before the text."""
    return text.removesuffix(")") if text.count(")") > text.count("(") else text


def install() -> None:
    """Sets up kafka-python's loggers. May be called again."""
    for name in SILENT:
        logging.getLogger(name).setLevel(logging.CRITICAL)
    logging.getLogger(EVENT_LOOP).addFilter(_without_slow_steps)
    for name in WITH_CONTENTS:
        logging.getLogger(name).addFilter(without_contents)
    for name in LOGGERS:
        logger = logging.getLogger(name)
        if not any(isinstance(old, ConnectionLines) for old in logger.filters):
            logger.addFilter(_LINES)


_LINES: Final = ConnectionLines()
