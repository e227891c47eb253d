"""Which errors are permanent, also after they were received from another process."""

from __future__ import annotations

import json
import pickle

import pyruhvro
import pytest

from spark_tasks.errors import (
    ConfigError,
    ConnectError,
    DataError,
    PermanentError,
    PluginExitError,
    RetriableError,
    counted,
    is_permanent,
    plugin_code,
    rust_code,
    short_trace,
)
from spark_tasks.kafka.errors import KafkaAuthorizationError, KafkaUnavailableError
from spark_tasks.plugins import PluginNotFoundError
from spark_tasks.spark.executor import failed_outcome
from spark_tasks.tasks.configs import TooManyTasksError


class OddError(PermanentError):
    """Cannot be unpickled."""

    def __init__(self, one: str, two: str) -> None:
        super().__init__(one + two)


def caused(error: Exception, cause: BaseException) -> Exception:
    error.__cause__ = cause
    return error


class DriverError(Exception):
    """As asyncpg, psycopg and MySQL's driver raise them."""

    def __init__(self, sqlstate: str | None) -> None:
        super().__init__("the database says no")
        self.sqlstate = sqlstate


PERMANENT = [
    ConfigError("x"), PermanentError("x"), KafkaAuthorizationError("x", 29), PluginNotFoundError("x"),
    TooManyTasksError("c", 2, 1), ModuleNotFoundError("No module named 'psycopg'"), OddError("a", "b"),
    caused(ConnectError("wrapped"), ConfigError("x")), DriverError("28P01"),
]
PASSING = [
    ConnectError("x"), RetriableError("x"), DataError("x"), OSError("x"), KafkaUnavailableError("x"), ValueError("x"),
    caused(RetriableError("not yet"), PermanentError("x")), caused(ConnectError("x"), OSError("y")),
    DriverError("57P03"), DriverError(None),
]


@pytest.mark.parametrize("error", PERMANENT, ids=lambda e: type(e).__name__)
def test_permanent_errors_are_recognized_also_after_pickling(error: Exception) -> None:
    assert is_permanent(error)
    if error.__cause__ is None:
        assert is_permanent(pickle.loads(pickle.dumps(failed_outcome(error))).error)


@pytest.mark.parametrize("error", PASSING, ids=lambda e: type(e).__name__)
def test_temporary_errors_are_not_permanent(error: Exception) -> None:
    assert not is_permanent(error)
    assert not is_permanent(pickle.loads(pickle.dumps(failed_outcome(error))).error)


def test_circular_causes_are_tolerated() -> None:
    error = ConnectError("x")
    error.__cause__ = caused(ConnectError("y"), error)
    assert not is_permanent(error)


class UnreadableExit(BaseException):
    def __str__(self) -> str:
        raise KeyboardInterrupt


class UnreadableError(Exception):
    __str__ = UnreadableExit.__str__


def test_what_a_plugin_raises_is_an_error_even_if_its_message_raises_something() -> None:
    with pytest.raises(PluginExitError, match=r"^the plugin raised SystemExit: 3$"), plugin_code():
        raise SystemExit(3)
    with pytest.raises(PluginExitError, match=r"UnreadableExit: its message cannot be shown$"), plugin_code():
        raise UnreadableExit
    with pytest.raises(PluginExitError, match=r"UnreadableError: its message cannot be shown$"), plugin_code():
        raise UnreadableError


def test_a_panic_in_rust_is_an_error_of_the_data():
    """A panic is not an Exception in Python."""
    schema = json.dumps({"type": "record", "name": "r", "fields": [{"name": "v", "type": "bytes"}]})
    with pytest.raises(DataError, match="a library cannot process the data: "), rust_code():
        pyruhvro.deserialize_array([b"\0\0"], schema)
    with pytest.raises(KeyboardInterrupt), rust_code():
        raise KeyboardInterrupt


def test_a_stack_trace_has_all_causes_and_no_marks_within_lines() -> None:
    """Dead letters have one each, and Python parses the line above a mark again to place it."""
    def fail(error: Exception, cause: Exception | None = None) -> int:
        raise error from cause

    try:
        try:
            _ = 1 + fail(ExceptionGroup("several", [ValueError("first")]))
        except ExceptionGroup as error:
            _ = 1 + fail(DataError("second"), error)
    except DataError as error:
        told = short_trace(error, lambda text: text.replace("second", "[hidden]"))
    assert [line for line in told.splitlines() if set(line.strip()) & {"^", "~"}] == []
    assert told.count("1 + fail(") == 2
    for said in ("ValueError: first", "raise error from cause", "was the direct cause of", "DataError: [hidden]"):
        assert said in told


def test_a_number_has_its_noun() -> None:
    assert [counted(number, "task") for number in (0, 1, 2)] == ["no tasks", "1 task", "2 tasks"]
