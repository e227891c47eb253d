"""Outages are recognized without the libraries that raise them."""

from __future__ import annotations

import errno
import traceback
from http import HTTPStatus
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_tasks.errors import DataError
from spark_tasks.pipeline.errors.outages import is_of_content, is_of_machine, is_of_record, is_outage


def named(name: str, base: type[Exception] = Exception, **attributes: Any) -> Exception:
    """An error of a class of that name."""
    return type(name, (base,), attributes)("text")  # type: ignore[no-any-return]


TRANSPORT = type("TransportError", (Exception,), {})


@pytest.mark.parametrize("error", [
    named("ConnectionTimeout", TRANSPORT),  # elastic-transport
    named("NoHostAvailable"), named("WriteTimeout"), named("Unavailable"),  # cassandra
    named("ServiceUnavailable"),  # neo4j, google
    named("NetworkError"),  # clickhouse
    named("ReadTimeout", OSError), named("ConnectionError", OSError),  # requests
    named("ServerSelectionTimeoutError"), named("ConnectTimeoutError"),  # pymongo, botocore
    named("ClientError", status=503), named("ApiError", status_code=HTTPStatus.TOO_MANY_REQUESTS),  # aiohttp, elastic
    named("HTTPError", OSError, response=SimpleNamespace(status_code=502)),  # requests
    named("ApiError", meta=SimpleNamespace(status=504)),  # elastic
    named("BulkIndexError", errors=[{"index": {"status": 400}}, {"create": {"status": 429}}]),  # elastic
    OSError(errno.ETIMEDOUT, "Connection timed out"), type("ClientError", (OSError,), {})(errno.ECONNREFUSED, "no"),
], ids=lambda error: type(error).__name__)
def test_an_outage_is_recognized_by_names_and_by_the_status_of_http(error: Exception) -> None:
    assert is_outage(error)


class Unreadable(Exception):  # noqa: N818
    @property
    def status(self) -> int:
        raise RuntimeError("not now")


@pytest.mark.parametrize("error", [
    ValueError("no"), named("TimeoutOfRecordError"), named("HTTPError", status=400, status_code=404), Unreadable(),
    named("ApiError", status="503", response=None), OSError(errno.ENOENT, "no file"),
    named("BulkIndexError", errors=[{"index": {"status": 400}}, {"index": None}, 503]),
    named("ValidationError", errors=lambda: [{"index": {"status": 503}}]),  # pydantic
], ids=lambda error: type(error).__name__)
def test_other_errors_are_no_outages(error: Exception) -> None:
    assert not is_outage(error)


def raised_after_a_timeout(error: Exception, *, hidden: bool = False, cause: bool = False) -> Exception:
    try:
        try:
            raise TimeoutError("slow")  # noqa: TRY301
        except TimeoutError as timeout:
            if hidden or cause:
                raise error from (timeout if cause else None)
            raise error  # noqa: B904
    except Exception as raised:  # noqa: BLE001
        return raised


@pytest.mark.parametrize("hidden", [False, True])
def test_an_error_counts_while_whose_handling_another_was_raised_unless_it_is_hidden(hidden: bool) -> None:
    """As in a stack trace."""
    error = raised_after_a_timeout(ValueError("bad"), hidden=hidden)
    assert is_outage(error) is not hidden
    assert ("slow" in "".join(traceback.format_exception(error))) is not hidden


@pytest.mark.parametrize("error", [
    DataError("no such customer"), named("IntegrityError"), named("DuplicateKeyError"),
    named("UniqueViolation", type(named("IntegrityError"))),
    named("HTTPError", OSError, status=409),
], ids=lambda error: type(error).__name__)
def test_an_error_of_the_record_is_no_outage_if_one_was_handled_before_unless_that_is_its_cause(
    error: Exception
) -> None:
    """Such as after a reconnect."""
    assert not is_outage(raised_after_a_timeout(error))
    assert is_outage(raised_after_a_timeout(error, cause=True))


def _refuse(*_: Any, **__: Any) -> Any:
    raise RuntimeError("do not touch")


METHODS = ("__str__", "__repr__", "__format__", "__eq__", "__hash__", "__bool__", "__len__", "__iter__", "__getitem__",
           "__index__", "__int__")
REFUSING = dict.fromkeys(METHODS, _refuse)
HOSTILE = type("Hostile", (), {**REFUSING, "__getattr__": _refuse, "__class__": property(_refuse)})()
TEXT = type("Text", (str,), {**REFUSING, "startswith": _refuse})("40001")
NUMBER = type("Number", (int,), {**REFUSING})(1205)
MODULES = ("pymysql.err", "pymssql", "oracledb.exceptions", "pyodbc", "pg8000", "sqlite3", "store", None, 7)
ATTRIBUTES = ("args", "orig", "sqlstate", "pgcode", "errno", "sqlite_errorcode", "status", "response", "errors",
              "__module__")
THINGS = {  # by names, because Hypothesis and pytest touch values
    "hostile": HOSTILE, "text": TEXT, "number": NUMBER, "large": 10 ** 5000, "true": True, "none": None, "empty": "",
    "bytes": b"text", "list": [HOSTILE], "tuple": (HOSTILE, TEXT), "state": "08006",
    "fields": {"S": HOSTILE, "C": HOSTILE}, "answer": [{"index": HOSTILE}],
    "status": [{"index": {"status": HOSTILE}}], "refusing": property(_refuse),
}


@given(st.sampled_from(MODULES), st.sampled_from([Exception, OSError, ValueError]),
       st.lists(st.sampled_from(sorted(THINGS)), max_size=3),
       st.dictionaries(st.sampled_from(ATTRIBUTES), st.sampled_from(sorted(THINGS)), max_size=4))
def test_an_error_with_attributes_that_refuse_to_be_read_is_judged_all_the_same(
    module: Any, base: type[Exception], arguments: list[str], attributes: dict[str, str]
) -> None:
    body = {name: THINGS[thing] for name, thing in attributes.items()}
    error = type("PluginError", (base,), {"__module__": module, **body})(*(THINGS[thing] for thing in arguments))
    for judge in (is_outage, is_of_record, is_of_machine, is_of_content):
        assert judge(error) in (True, False)


def test_the_codes_are_read_from_texts_and_numbers_of_any_class() -> None:
    error = type("OperationalError", (Exception,), {"__module__": "pymssql"})
    assert is_outage(error(NUMBER))
    assert is_outage(named("StoreError", sqlstate=TEXT))


def test_what_an_error_is_raised_with_is_not_made_a_text() -> None:
    """It may be a large record, and the errors are thousands."""
    assert not is_outage(type("StoreError", (Exception,), {"__module__": "pyodbc"})(HOSTILE, "[40001] text"))
