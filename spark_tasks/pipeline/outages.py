"""Recognizes errors that no record causes: those of another system that does not work, and of the machine."""

from __future__ import annotations

import errno
import socket
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Final

from spark_tasks.errors import RetriableError

# Ends of the names of classes: PEP 249's errors of the database and not of the data; those of clients of stores
# (cassandra, clickhouse, elastic, google, mongo, neo4j) and of HTTP, none of which need be installed.
_OUTAGES: Final = (
    "OperationalError", "InterfaceError", "ConnectionError", "ConnectionFailure", "NetworkError", "Timeout",
    "TimeoutError", "TimeoutException", "Unavailable", "NoHostAvailable",
)
_UNREACHABLE: Final = frozenset({
    errno.EHOSTUNREACH, errno.EHOSTDOWN, errno.ENETUNREACH, errno.ENETDOWN, errno.ETIMEDOUT, errno.ECONNREFUSED,
    errno.ECONNRESET, errno.ECONNABORTED, errno.EPIPE})
_OF_MACHINE: Final = frozenset({
    errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO, errno.EMFILE, errno.ENFILE, errno.ENOMEM})
_MAX_CAUSES: Final = 10
_BUSY: Final = frozenset({429, 502, 503, 504})  # statuses of HTTP
# Where clients keep an answer's status: aiohttp and urllib; httpx and elastic; requests; older elastic.
_STATUSES: Final = (("status",), ("status_code",), ("response", "status_code"), ("meta", "status"))


def is_outage(error: BaseException) -> bool:
    """Returns whether an error is caused by another system that does not work, and not by the record. Drivers often
    raise an error of their own after that of the connection, so its causes count too.
    """
    return any(
        _is_outage(type(cause))  # type: ignore[arg-type]  # mypy takes the __hash__ of its instances
        or (isinstance(cause, OSError) and cause.errno in _UNREACHABLE)
        or not _BUSY.isdisjoint(http_statuses(cause))
        for cause in with_causes(error)
    )


def is_of_machine(error: BaseException) -> bool:
    """Returns whether a converter or transform failed because the machine lacks memory, space or files. That is no
    fault of the record and fails the task. Its causes count too.
    """
    return any(isinstance(cause, MemoryError) or (isinstance(cause, OSError) and cause.errno in _OF_MACHINE)
               for cause in with_causes(error))


def with_causes(error: BaseException) -> Iterator[BaseException]:
    """Yields the error and those from which it was raised, or that were being handled when it was raised, as far as a
    stack trace shows them.
    """
    cause: BaseException | None = error
    for _ in range(_MAX_CAUSES):
        if cause is None:
            return
        yield cause
        cause = cause.__cause__ or (None if cause.__suppress_context__ else cause.__context__)


def http_statuses(error: BaseException) -> Iterator[int]:
    """Yields the HTTP status of the answer that an error of an HTTP client means, if it has one."""
    for path in _STATUSES:
        found: Any = error
        try:
            for name in path:
                found = getattr(found, name, None)
        except Exception:  # noqa: BLE001, S112 - a property of a plugin's class
            continue
        if isinstance(found, int):
            yield found


@lru_cache(256)  # asked for each of the thousands of errors of a search
def _is_outage(kind: type[BaseException]) -> bool:
    return issubclass(kind, (RetriableError, ConnectionError, TimeoutError, socket.gaierror)) or any(
        base.__name__.endswith(_OUTAGES) for base in kind.__mro__)
