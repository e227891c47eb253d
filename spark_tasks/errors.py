"""What can go wrong, as types. A plugin raises these; everything else it raises is a defect and fails its task."""

from __future__ import annotations


class ConnectError(Exception):
    """Base of all errors that heeler raises on purpose. The message says what, where and what to do.

    `java_class`: what Kafka Connect throws in its place, for tools that look at dead letters. `java_message`: its
    words, where they are others.
    """

    java_class: str = "org.apache.kafka.connect.errors.ConnectException"
    java_message: str | None = None


class RetriableError(ConnectError):
    """Trying the same again may work: a broken connection, a busy server."""

    java_class = "org.apache.kafka.connect.errors.RetriableException"


class StartCancelledError(ConnectError):
    """A task is stopped before it has begun: no failure."""


class DataError(ConnectError):
    """A record cannot be read, converted or written: its task fails, unless errors.tolerance is all."""

    java_class = "org.apache.kafka.connect.errors.DataException"


class ToleranceExceededError(DataError):
    """A bad record that errors.tolerance does not allow; says which one, the cause says why."""

    java_class = ConnectError.java_class


class ConfigError(ConnectError):
    """A configuration value is wrong; names the key, the value and what is allowed."""

    java_class = "org.apache.kafka.common.config.ConfigException"
