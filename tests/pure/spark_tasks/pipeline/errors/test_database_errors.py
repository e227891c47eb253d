"""Errors of database clients, with the shapes and codes of real ones: PyMySQL 1.2 and mysql-connector 26 (with MariaDB
10.11), psycopg 3.3, psycopg2 2.9 and pg8000 1.31 (with PostgreSQL 15), SQLAlchemy 2.1; those that clients raise without
a server: asyncpg and oracledb. pymssql's and pyodbc's are from their sources, Snowflake's from its documentation.
"""

from __future__ import annotations

import sqlite3
from typing import Any

import pytest

from spark_tasks.errors import DataError, RetriableError
from spark_tasks.pipeline.errors.database_errors import Meaning, meaning_of
from spark_tasks.pipeline.errors.outages import is_of_record, is_outage

OPERATIONAL = ("OperationalError", "DatabaseError")


def raised(module: str, names: tuple[str, ...], *args: Any, **attributes: Any) -> Exception:
    """An error of a class of the client with these names, its own first."""
    kind: type[Exception] = Exception
    for name in reversed(names):
        kind = type(name, (kind,), {"__module__": module})
    error = kind(*args)
    vars(error).update(attributes)
    return error


def mysql(number: int, text: str = "", state: str | None = None, names: tuple[str, ...] = OPERATIONAL) -> Exception:
    return raised("pymysql.err", names, number, text, **({"sqlstate": state} if state else {}))


def postgres(state: str, *names: str) -> Exception:
    return raised("psycopg.errors", names, "text", sqlstate=state)


def wrapped(error: Exception, name: str = "OperationalError") -> Exception:
    """As SQLAlchemy does."""
    outer = raised("sqlalchemy.exc", (name, "DBAPIError"), f"({type(error).__name__}) {error} [parameters: (7,)]",
                   orig=error)
    outer.__cause__ = error
    return outer


def of_django(error: Exception) -> Exception:
    outer = raised("django.db.utils", (type(error).__name__, "DatabaseError"), *error.args)
    outer.__cause__ = error
    return outer


class Coded:
    """As oracledb's _Error, which is the argument of its exceptions."""

    def __init__(self, full_code: str, *, isrecoverable: bool = False) -> None:
        self.full_code, self.isrecoverable = full_code, isrecoverable

    def __repr__(self) -> str:
        return self.full_code


def sql_server(state: str, native: int, name: str = "ProgrammingError", server: str = "[SQL Server]") -> Exception:
    """As pyodbc has it on Windows, where it tells more than the first message. All have the server's number, and the
    first one the function of ODBC that failed.
    """
    driver = f"[Microsoft][ODBC Driver 18 for SQL Server]{server}"
    text = f"[{state}] {driver}The value is (2627). ({native}) (SQLExecDirectW); [01000] {driver}It has ended. (3621)"
    return raised("pyodbc", (name, "Error"), state, text)


def pymssql(number: int) -> Exception:
    return raised("pymssql.exceptions", OPERATIONAL, number, b"text")


def connector(number: int, state: str = "HY000", name: str = "DatabaseError") -> Exception:
    """As mysql-connector has it."""
    names = (name, "Error") if name == "DatabaseError" else (name, "DatabaseError", "Error")
    return raised("mysql.connector.errors", names, number, "text", state, errno=number, sqlstate=state)


def snowflake(number: int, state: str, text: str, name: str = "ProgrammingError") -> Exception:
    """Snowflake's connector; 22000 is a state that means anything."""
    return raised("snowflake.connector.errors", (name, "DatabaseError", "Error"), f"{number} ({state}): {text}",
                  errno=number, sqlstate=state)


def oracle(code: str, name: str = "DatabaseError", *, recoverable: bool = False) -> Exception:
    return raised("oracledb.exceptions", (name, "Error"), Coded(code, isrecoverable=recoverable))


RECORDS = {
    "a check of MySQL": mysql(3819, "Check constraint 't_chk_1' is violated.", "HY000"),
    "a check of MariaDB": mysql(4025, "CONSTRAINT `CONSTRAINT_1` failed for `d`.`t`", "23000"),
    "the same without a state": mysql(4025), "a date of MySQL": mysql(1292, state="22007"), "UTF-8": mysql(1300),
    "mysqlclient": raised("MySQLdb", OPERATIONAL, 1292, "Incorrect date value"),
    "mysql-connector, an enum": raised("mysql.connector.errors", ("DatabaseError",), 1265, errno=1265),
    "psycopg": postgres("23514", "CheckViolation", "IntegrityError"),
    "psycopg, a view's check": postgres("44000", "WithCheckOptionViolation", "ProgrammingError"),
    "psycopg2": raised("psycopg2.errors", ("NumericValueOutOfRange", "DataError"), "text", pgcode="22003"),
    "pg8000": raised("pg8000.exceptions", ("DatabaseError", "Error"), {"S": "ERROR", "C": "23514", "M": "violates"}),
    "asyncpg": raised("asyncpg.exceptions", ("CheckViolationError", "PostgresError"), "text", sqlstate="23514"),
    "pyodbc": raised("pyodbc", ("IntegrityError", "DatabaseError"), "23000", "[23000] [Microsoft] duplicate key"),
    "pymssql, a conversion": raised("pymssql.exceptions", OPERATIONAL, 245, b"Conversion failed"),
    "Oracle, too large": oracle("ORA-12899"), "Oracle, a check": oracle("ORA-02290", "IntegrityError"),
    "SQLAlchemy": wrapped(mysql(3819)), "Django": of_django(mysql(3819)),
    "SQLAlchemy with asyncpg": raised(
        "sqlalchemy.dialects.postgresql.asyncpg", ("Error",), "text", sqlstate="22001", pgcode="22001"),
    "Django with pyodbc": of_django(sql_server("42000", 8169)),
    **{f"PyMySQL, {number}": mysql(number) for number in (1022, 1169, 1367, 1369, 1586, 1761, 1762, 3141, 3157)},
    **{f"pymssql, {number}": pymssql(number) for number in (511, 517, 550, 1946, 8169)},
    "pyodbc, a conversion": sql_server("42000", 8169),
}
OUTAGES = {
    "MySQL is away": mysql(2003, "Can't connect"), "too many connections": mysql(1040, state="08004"),
    "a lock of MySQL": mysql(1205, state="HY000"), "deadlock": mysql(1213, state="40001"),
    "a failover of MySQL": mysql(1290, state="HY000"), "killed": mysql(1927, state="70100"), "unknown": mysql(9999),
    "mysql-connector, a full disk": raised(
        "mysql.connector.errors", ("DatabaseError",), 1021, errno=1021, sqlstate="HY000"),
    "psycopg": postgres("57P01", "AdminShutdown", "OperationalError"),
    "a failover of PostgreSQL": postgres("25006", "ReadOnlySqlTransaction", "InternalError"),
    "psycopg without a code": raised("psycopg", OPERATIONAL, "connection failed", sqlstate=None),
    "psycopg2": raised("psycopg2.errors", ("DiskFull", "OperationalError"), "text", pgcode="53100"),
    "pg8000": raised("pg8000.exceptions", ("DatabaseError", "Error"), {"S": "FATAL", "C": "57P01"}),
    "asyncpg": raised("asyncpg.exceptions", ("TooManyConnectionsError", "PostgresError"), "text", sqlstate="53300"),
    "pyodbc, deadlock": raised("pyodbc", ("Error",), "40001", "[40001] [Microsoft] deadlock victim (1205)"),
    "pyodbc, timeout": raised("pyodbc", ("Error",), "HYT00", "[HYT00] [Microsoft] Login timeout expired"),
    "pymssql": raised("pymssql.exceptions", OPERATIONAL, 1205, b"deadlock victim"),
    "Oracle, connection lost": oracle("DPY-4011", recoverable=True), "Oracle, deadlock": oracle("ORA-00060"),
    "Oracle, call timeout": oracle("DPY-4024"), "Oracle says so": oracle("ORA-16456", recoverable=True),
    "SQLAlchemy": wrapped(oracle("DPY-4011", recoverable=True), "DatabaseError"),
    "SQLAlchemy's pool": raised("sqlalchemy.exc", ("TimeoutError", "SQLAlchemyError"), "QueuePool limit"),
    "a plugin's": wrapped(mysql(2013)),
    **{f"mysql-connector, {number}": connector(number) for number in (1020, 1030, 1135, 1180, 1223, 1637, 1874)},
    **{f"pyodbc with SQL Server, {number}": sql_server(state, number) for number, state in (
        (9002, "42000"), (1105, "42000"), (1222, "42000"), (40501, "HY000"), (40613, "HY000"))},
    **{code: oracle(code) for code in ("ORA-30036", "ORA-01628", "ORA-01555", "ORA-04021", "ORA-04031", "ORA-00028")},
    "Django with pyodbc": of_django(sql_server("42000", 9002)),
    "pyodbc with MySQL": raised("pyodbc", ("Error",), "HY000",
                                "[HY000] [MySQL][ODBC 8.0(w) Driver][mysqld-8.0.33]Got error 28 (1030) (SQLExecute)"),
    "pyodbc, a closed pipe: no number of the server": sql_server("08S01", 232, "OperationalError", server=""),
    "a client that nobody listed": raised("store.errors", ("StoreError",), "text", sqlstate="08006"),
    "a session of Snowflake": snowflake(390114, "08001", "Authentication token has expired", "DatabaseError"),
}
STATEMENTS = {
    "an index row of PostgreSQL": postgres("54000", "ProgramLimitExceeded", "OperationalError"),
    "a function of PostgreSQL": postgres("38000", "ExternalRoutineException", "OperationalError"),
    "a column of MySQL": mysql(1054, "Unknown column 'nope'", "42S22"), "a column count": mysql(1136, state="21S01"),
    "a trigger of MySQL": mysql(1644, "refused by trigger", "45000"), "no default": mysql(1364, state="HY000"),
    "a packet": mysql(1153, "Got a packet bigger than 'max_allowed_packet' bytes", "08S01"),
    "columns, in the DataError of mysql-connector": raised(
        "mysql.connector.errors", ("DataError",), 1136, errno=1136, sqlstate="21S01"),
    "a trigger of SQL Server": pymssql(50000), "identities": pymssql(544), "a trigger's end": pymssql(3609),
    "Snowflake's quota": snowflake(90073, "22000", "Warehouse 'W' cannot be resumed because it exceeded its quota"),
    "Snowflake's session": snowflake(90105, "22000", "This session does not have a current database"),
    "a client that nobody listed": raised("store.errors", ("StoreError",), "text", sqlstate="23505"),
    "any data error, over ODBC": raised("pyodbc", ("DataError", "Error"), "22000", "[22000] [Snowflake] quota (90073)"),
    "any data error of PostgreSQL": postgres("22000", "DataException", "DataError"),
    "a role of PostgreSQL": postgres("22023", "InvalidParameterValue", "DataError"),
    "an ambiguous column": connector(1052, "23000", "IntegrityError"),
    "an ambiguous column, over ODBC": raised(
        "pyodbc", ("IntegrityError",), "23000",
        "[23000] [ma-3.1.15][10.11.6-MariaDB]Column 'a' in where clause is ambiguous (1052) (SQLExecDirectW)"),
    "arguments of MySQL": mysql(1210, state="HY000"), "a subquery": mysql(1242, state="21000"),
    "SQLAlchemy": wrapped(postgres("54000", "ProgramLimitExceeded", "OperationalError")),
}


@pytest.mark.parametrize("error", RECORDS.values(), ids=RECORDS)
def test_what_a_database_refuses_for_a_value_is_no_outage(error: Exception) -> None:
    assert not is_outage(error)
    assert is_of_record(error)


@pytest.mark.parametrize("error", OUTAGES.values(), ids=OUTAGES)
def test_a_database_that_does_not_work_is_an_outage(error: Exception) -> None:
    assert is_outage(error)
    assert not is_of_record(error)


@pytest.mark.parametrize("error", STATEMENTS.values(), ids=STATEMENTS)
def test_a_statement_that_a_database_refuses_is_no_outage_and_may_not_be_the_records(error: Exception) -> None:
    assert not is_outage(error)
    assert not is_of_record(error)


@pytest.mark.parametrize(("statement", "parameters", "of_record"), [
    ("insert into nope values (1)", (), False), ("insert into t (nope) values (1)", (), False),
    ("select " + ",".join("?" * 40_000), tuple(range(40_000)), False), ("select json('{')", (), False),
    ("insert into t values (?)", ("long",), True), ("insert into t values (null)", (), True),
], ids=["table", "column", "variables", "json", "check", "null"])
def test_the_errors_of_a_real_sqlite(statement: str, parameters: tuple[Any, ...], of_record: bool) -> None:
    connection = sqlite3.connect(":memory:")
    connection.execute("create table t (a text not null check (length(a) < 3))")
    with pytest.raises(sqlite3.Error) as raised:
        connection.execute(statement, parameters)
    assert not is_outage(raised.value)
    assert is_of_record(raised.value) is of_record
    connection.close()


def test_a_locked_sqlite_is_an_outage(tmp_path: Any) -> None:
    first, second = (sqlite3.connect(tmp_path / "data", timeout=0) for _ in range(2))
    first.execute("create table t (a)")
    first.execute("begin immediate")
    with pytest.raises(sqlite3.OperationalError, match="locked") as raised:
        second.execute("insert into t values (1)")
    assert is_outage(raised.value)
    first.close()
    second.close()


def test_the_nearest_class_with_a_known_name_decides_without_a_code() -> None:
    """asyncpg's DataError is an InterfaceError."""
    error = raised("asyncpg.exceptions", ("DataError", "InterfaceError"), "invalid input for query argument $1: 'x'")
    assert not is_outage(error)
    assert is_of_record(error)


def test_what_a_plugin_says_counts_more_than_a_code() -> None:
    retriable, bad = RetriableError("later"), DataError("no such customer")
    retriable.__cause__, bad.__context__ = mysql(3819), mysql(2013)
    assert is_outage(retriable)
    assert is_of_record(bad)
    assert not is_outage(bad)


@pytest.mark.parametrize("error", [RECORDS["a check of MySQL"], STATEMENTS["a packet"]], ids=str)
def test_an_answer_of_a_database_is_no_outage_if_a_connection_was_lost_before(error: Exception) -> None:
    """A writer that connects again while it handles the loss."""
    error.__context__ = ConnectionResetError("lost")
    try:
        assert not is_outage(error)
    finally:
        error.__context__ = None


class Audit(Exception):  # noqa: N818
    """A plugin's own, with names of PEP 249."""


AUDIT = {name: type(name, (Audit,), {}) for name in ("Error", "DatabaseError")}
UNIQUE = raised("psycopg.errors", ("UniqueViolation", "IntegrityError", "DatabaseError", "Error"), "twice",
                sqlstate="23505")


@pytest.mark.parametrize("error", [
    Exception("audit store unavailable"), RuntimeError("audit store unavailable"), Exception(*UNIQUE.args),
    AUDIT["Error"]("audit store unavailable"), AUDIT["DatabaseError"]("audit store unavailable"), AUDIT["Error"](),
], ids=repr)
def test_what_is_raised_from_an_error_of_the_record_does_not_mean_what_that_does(error: Exception) -> None:
    """Only a copy does, with its name and its arguments, such as Django's."""
    error.__cause__ = UNIQUE
    assert meaning_of(error) is None
    assert not is_of_record(error)


@pytest.mark.parametrize("name", ["Error", "DatabaseError"])
def test_a_copy_means_what_the_error_does(name: str) -> None:
    copy = raised("django.db.utils", (name,), *UNIQUE.args)
    copy.__cause__ = UNIQUE
    assert is_of_record(copy)


@pytest.mark.parametrize("error", [
    ValueError(1213), OSError(2003, "errno of another kind"), raised("store", ("StoreError",), "40001", "text"),
    raised("store", ("StoreError",), sqlstate=23000), raised("store", ("StoreError",), {"C": 7}), Exception(),
    raised("store", ("StoreError",), {"C": "40123", "id": 7}), raised("store", ("StoreError",), Coded("ORA-00001")),
    raised("pymysql.err", ("Error",), b"text", errno="1062"),
], ids=repr)
def test_numbers_and_texts_of_other_errors_are_no_codes(error: Exception) -> None:
    assert meaning_of(error) is None


def test_each_code_has_one_meaning() -> None:
    assert meaning_of(mysql(3819)) is Meaning.RECORD
    assert meaning_of(postgres("57014", "QueryCanceled", "OperationalError")) is Meaning.OUTAGE
    assert meaning_of(postgres("0A000", "FeatureNotSupported", "NotSupportedError")) is None
