"""Recognizes errors that no record causes: those of another system that does not work, and of the machine."""

from __future__ import annotations

import errno
import socket
from collections.abc import Iterator
from functools import lru_cache
from typing import Final

from spark_tasks.errors import DataError, RetriableError
from spark_tasks.pipeline.errors.attributes import attribute_of, is_a, number_of
from spark_tasks.pipeline.errors.database_errors import Meaning, meaning_of

# Ends of the names of classes, if an error has no code that is known: PEP 249's errors of the database and not of the
# data; those of clients of stores (cassandra, clickhouse, elastic, google, mongo, neo4j) and of HTTP.
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
# Statuses of HTTP: the server is busy; it refuses what it was sent; it works, and refuses this record.
_BUSY: Final = frozenset({429, 502, 503, 504})
_OF_CONTENT: Final = frozenset({400, 404, 409, 413, 415, 422})
_OF_RECORD: Final = frozenset({409, 422})
_OF_RECORDS: Final = frozenset({"IntegrityError", "DataError", "DuplicateKeyError"})  # of PEP 249 and pymongo, by name
# Where clients keep an answer's status: aiohttp and urllib; httpx and elastic; requests; older elastic.
_STATUSES: Final = (("status",), ("status_code",), ("response", "status_code"), ("meta", "status"))


def is_outage(error: BaseException) -> bool:
    """Returns whether an error is caused by another system that does not work, and not by the record. Drivers often
    raise an error of their own after that of the connection, so its causes count too, see _reasons.
    """
    return any(
        _meaning(cause) is Meaning.OUTAGE or _errno(cause) in _UNREACHABLE
        or not _BUSY.isdisjoint(http_statuses(cause))
        for cause in _reasons(error)
    )


def is_of_machine(error: BaseException) -> bool:
    """Returns whether a plugin failed because the machine lacks memory, space or files. That is no fault of the record
    and fails the task. Its causes count too.
    """
    return any(isinstance(cause, MemoryError) or _errno(cause) in _OF_MACHINE for cause in _reasons(error))


def is_of_content(error: OSError) -> bool:
    """Returns whether an OSError may mean the record, as many errors of HTTP clients (requests, urllib) do: the server
    refuses what it was sent, or a value is not JSON.
    """
    return isinstance(error, ValueError) or not _OF_CONTENT.isdisjoint(http_statuses(error)) or any(
        base.__name__ == "InvalidJSONError" for base in type(error).__mro__)


def is_of_record(error: BaseException) -> bool:
    """Returns whether an error can mean nothing but the record."""
    return _meaning(error) is Meaning.RECORD or not _OF_RECORD.isdisjoint(http_statuses(error))


def _meaning(error: BaseException) -> Meaning | None:
    """Returns what an error means, without its causes. The first of these that says something counts: its class, if it
    is heeler's or Python's; its code; the nearest class in its inheritance whose name is known.
    """
    kind = type(error)
    own = _meaning_by_type(kind)  # type: ignore[arg-type]  # mypy takes the __hash__ of its instances
    return own or meaning_of(error) or _meaning_of_name(kind)  # type: ignore[arg-type]


def _reasons(error: BaseException) -> Iterator[BaseException]:
    """Yields the error and its causes. An error that was being handled when this one was raised, such as a lost
    connection, does not count as a cause if this one is about the record, or if a database refuses a statement with it.
    One that is named explicitly (`raise … from`) always counts.
    """
    for cause in with_causes(error):
        yield cause
        if cause.__context__ is not None and cause.__cause__ is None and (
                is_of_record(cause) or meaning_of(cause) is Meaning.STATEMENT):
            return


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
    """Yields the HTTP statuses of the answers that an error of an HTTP client means, if it has some."""
    for path in _STATUSES:
        if status := number_of(attribute_of(error, *path)):
            yield status
    yield from _bulk_statuses(error)


def _bulk_statuses(error: BaseException) -> Iterator[int]:
    """Yields the statuses of elastic's BulkIndexError: its `errors` are like [{"index": {"status": 400}}]."""
    errors = attribute_of(error, "errors")
    for one in errors if is_a(errors, list) else ():
        for answer in one.values() if is_a(one, dict) else ():
            if is_a(answer, dict) and (status := number_of(answer.get("status"))):
                yield status


def _errno(error: BaseException) -> int:
    """Returns the number of an error of the operating system, 0 for any other error."""
    return number_of(attribute_of(error, "errno")) if isinstance(error, OSError) else 0


@lru_cache(256)  # asked for each of the thousands of errors of a search
def _meaning_by_type(kind: type[BaseException]) -> Meaning | None:
    if issubclass(kind, (RetriableError, ConnectionError, TimeoutError, socket.gaierror)):
        return Meaning.OUTAGE
    return Meaning.RECORD if issubclass(kind, DataError) else None


@lru_cache(256)
def _meaning_of_name(kind: type[BaseException]) -> Meaning | None:
    for base in kind.__mro__:
        if base.__name__ in _OF_RECORDS:
            return Meaning.RECORD
        if base.__name__.endswith(_OUTAGES):
            return Meaning.OUTAGE
    return None
