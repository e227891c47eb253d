"""The exceptions of heeler and its plugins. Any other exception of a plugin is a defect and fails its task."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Final

_UNREADABLE: Final = "its message cannot be shown"
_MAX_MESSAGE: Final = 10_000  # characters of each message in a stack trace
_REFUSED_LOGIN: Final = "28"  # invalid authorization specification, in ISO/IEC 9075


class ConnectError(Exception):
    """Base class of the errors that heeler raises. The message says what is wrong, where, and what to do.

    `java_class` is the exception that Kafka Connect throws in the same case; dead letters carry its name.
    `java_message` is Kafka Connect's message if it differs. `permanent` means that a retry fails until somebody changes
    something.
    """

    java_class: str = "org.apache.kafka.connect.errors.ConnectException"
    java_message: str | None = None
    permanent: bool = False


class RetriableError(ConnectError):
    """A failure that a retry may resolve, such as a broken connection or a busy server."""

    java_class = "org.apache.kafka.connect.errors.RetriableException"


class PermanentError(ConnectError):
    """A failure that persists until somebody changes something, such as rejected credentials. The task is not
    restarted automatically, regardless of errors.restart.policy.
    """

    permanent = True


class StartCancelledError(ConnectError):
    """The task was stopped while it was starting. This is not a failure."""


class DataError(ConnectError):
    """A record cannot be read, converted or written. The task fails unless errors.tolerance is `all`."""

    java_class = "org.apache.kafka.connect.errors.DataException"


class ToleranceExceededError(DataError):
    """A bad record that errors.tolerance does not allow. The message identifies the record; the cause says why."""

    java_class = ConnectError.java_class


class ConfigError(ConnectError):
    """A configuration value is invalid. The message names the key, the value and what is allowed."""

    java_class = "org.apache.kafka.common.config.ConfigException"
    permanent = True


class PluginExitError(ConnectError):
    """A plugin raised something that is not an Exception, such as SystemExit or asyncio.CancelledError; or an error
    whose message cannot be shown.
    """


class BusyError(ConnectError):
    """The requested operation is already in progress."""


class plugin_code:  # noqa: N801 - used as a function; a fifth of the time of a generator, several times in each split
    """A context manager for calls of a plugin. Raises PluginExitError for what is not an Exception: threads end after
    such errors, and Pykka even stops all actors; and for errors whose `str` raises something, wherever it is called.
    `interruptible`: a KeyboardInterrupt is the user's, in the main thread of a command.
    """

    __slots__ = ("_interruptible",)

    def __init__(self, *, interruptible: bool = False) -> None:
        self._interruptible = interruptible

    def __enter__(self) -> None:
        pass

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if error is None or (isinstance(error, Exception) and message_of(error) != _UNREADABLE):
            return
        if self._interruptible and isinstance(error, KeyboardInterrupt):
            return
        raise PluginExitError(f"the plugin raised {text_of(error)}") from error


@contextmanager
def rust_code() -> Iterator[None]:
    """A context manager for calls of a library in Rust. Raises DataError for a panic, which is not an Exception in
    Python, although a record can cause it.
    """
    try:
        yield
    except BaseException as error:
        if type(error).__name__ != "PanicException":  # PyO3 exports no class
            raise
        raise DataError(f"a library cannot process the data: {error}") from error


def text_of(error: BaseException) -> str:
    """Returns the type and the message of a plugin's error, as `ValueError: no such row`."""
    return f"{type(error).__name__}: {message_of(error)}"


def message_of(error: BaseException) -> str:
    """Returns the message of a plugin's error. `str` may raise anything."""
    try:
        return str(error)
    except BaseException:  # noqa: BLE001 - plugin code
        return _UNREADABLE


def shortened(text: str, limit: int) -> str:
    """Returns the text, or the beginning and the end of one of more than `limit` characters."""
    half = limit // 2
    return text if len(text) <= limit else f"{text[:half]}… {len(text) - 2 * half:,} characters omitted …{text[-half:]}"


def counted(number: int, noun: str) -> str:
    """Returns a number with its noun for a message: no tasks, 1 task, 2 tasks."""
    return f"{number or 'no'} {noun}{'' if number == 1 else 's'}"


def short_trace(error: BaseException, masked: Callable[[str], str]) -> str:
    """Returns the error's stack trace with shortened messages. `masked`: hides secrets, before a cut divides one."""
    entries = map(masked, _formatted(error))
    return "".join(shortened(entry.removesuffix("\n"), _MAX_MESSAGE) + "\n" for entry in entries)


def _formatted(error: BaseException) -> Iterable[str]:
    """As traceback.format_exception, without the marks below each line, for which Python parses the line: that takes
    longer than all the rest.
    """
    found = [traceback.TracebackException.from_exception(error, compact=True)]
    for one in found:
        for frame in one.stack:
            frame.colno = None
        found += [other for other in (one.__cause__, one.__context__, *(one.exceptions or ())) if other is not None]
    return found[0].format()


def is_permanent(error: BaseException) -> bool:
    """Returns whether a retry cannot resolve the error: it or one of its causes is `permanent`, an ImportError, or an
    error of a database driver with a `sqlstate` of class 28 (rejected credentials). A RetriableError among them wins.
    """
    seen: set[int] = set()
    cause: BaseException | None = error
    while cause is not None and id(cause) not in seen:
        if isinstance(cause, RetriableError):
            return False
        if getattr(cause, "permanent", False) is True or isinstance(cause, ImportError):
            return True
        if str(getattr(cause, "sqlstate", "")).startswith(_REFUSED_LOGIN):
            return True
        seen.add(id(cause))
        cause = cause.__cause__
    return False


def json_kind(value: object) -> str:
    """What a JSON value is, for messages: `an object`, `null`."""
    match value:
        case None:
            return "null"
        case bool():
            return "a boolean"
        case int() | float():
            return "a number"
        case str():
            return "a string"
        case list():
            return "a list"
        case _:
            return "an object"
