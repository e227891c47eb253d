"""What can go wrong, as types. A plugin raises these; everything else it raises is a defect and fails its task."""

from __future__ import annotations

from typing import Final

_REFUSED_LOGIN: Final = "28"  # invalid authorization specification, in ISO/IEC 9075


class ConnectError(Exception):
    """Base of all errors that heeler raises on purpose. The message says what, where and what to do.

    `java_class`: what Kafka Connect throws in its place, for tools that look at dead letters. `java_message`: its
    words, where they are others. `permanent`: trying again cannot help before somebody has changed something.
    """

    java_class: str = "org.apache.kafka.connect.errors.ConnectException"
    java_message: str | None = None
    permanent: bool = False


class RetriableError(ConnectError):
    """Trying the same again may work: a broken connection, a busy server."""

    java_class = "org.apache.kafka.connect.errors.RetriableException"


class PermanentError(ConnectError):
    """An error that a retry cannot fix before something is changed, such as refused credentials: the task is not
    restarted automatically, whatever errors.restart.policy is.
    """

    permanent = True


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
    permanent = True


class BusyError(ConnectError):
    """What is requested is already in progress."""


def is_permanent(error: BaseException) -> bool:
    """Whether trying again cannot help: the error says so, or one that led to it. So does a module that is not there,
    and an error of a database driver that has a `sqlstate` of class 28: the credentials are refused.
    """
    seen: set[int] = set()
    found: BaseException | None = error
    while found is not None and id(found) not in seen:
        if isinstance(found, RetriableError):
            return False
        if getattr(found, "permanent", False) is True or isinstance(found, ImportError):
            return True
        if str(getattr(found, "sqlstate", "")).startswith(_REFUSED_LOGIN):
            return True
        seen.add(id(found))
        found = found.__cause__
    return False
