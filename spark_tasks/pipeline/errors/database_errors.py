"""What the errors of database clients mean, by the codes of their servers. Pure; no client need be installed."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from enum import Enum, auto
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Final, TypeVar

from spark_tasks.pipeline.errors.attributes import attribute_of, is_a, number_of, text_of

Code = TypeVar("Code", int, str)

_SQLSTATE: Final = re.compile(r"[0-9A-Z]{5}")
# pyodbc's texts: the state, who says it, the message, the server's number and the function of ODBC. The message may
# quote values with numbers.
_ODBC: Final = re.compile(r"\[\w{5}\] ((?:\[[^]]*\]){1,4}).*\((\d{1,9})\) \(SQL\w+\)", re.DOTALL)


class Meaning(Enum):
    """The cause of an error."""

    OUTAGE = auto()  # the database does not work at the moment
    RECORD = auto()  # nothing but the record
    STATEMENT = auto()  # the record, the table or what the writer sends: no code can tell


def _table(code: Callable[[str], Code], *, outage: str, record: str, statement: str) -> Mapping[Code, Meaning]:
    kinds = zip((outage, record, statement), Meaning, strict=True)
    return MappingProxyType({code(one): meaning for codes, meaning in kinds for one in codes.split()})


# SQLSTATEs, or their first two characters: the standard's, PostgreSQL's, MySQL's (70: a statement was ended) and those
# of ODBC (HYT: timeouts). 25: the transaction is read-only (after a failover) or too old; 55: locks. 22000 says too
# little, and PostgreSQL has 22023 for a role that does not exist, too.
_STATES: Final = _table(
    str,
    outage="08 40 53 57 58 70 HYT00 HYT01 25006 25P03 25P04 55006 55P03",
    record="22 23 40002 44",
    statement="21 22000 22023 27 2F 38 39 42 45 54 P0",
)
# MySQL's and MariaDB's, whose SQLSTATEs are often HY000 (unknown) and 42000 (any), and which not all clients tell. The
# ones from 2000 to 2999 are of the client.
_MYSQL: Final = _table(
    int,
    outage="1020 1021 1030 1037 1038 1040 1041 1042 1043 1053 1114 1129 1135 1158 1159 1160 1161 1180 1203 1205 1206 "
           "1213 1223 1226 1290 1317 1615 1637 1792 1836 1874 1927 1969 2002 2003 2004 2005 2006 2011 2012 2013 2026 "
           "2055 3024 3168 3572 4031",
    record="1022 1048 1062 1169 1264 1265 1292 1300 1365 1366 1367 1369 1406 1411 1416 1451 1452 1526 1586 1690 1748 "
           "1761 1762 3140 3141 3156 3157 3819 4025",
    statement="1044 1049 1052 1054 1064 1118 1136 1142 1143 1146 1153 1162 1172 1210 1242 1364 1644",
)
# SQL Server's. pymssql has an OperationalError unless one violates a constraint; pyodbc's SQLSTATEs are often HY000 and
# 42000. 511, 1946: a row or a key is too large.
_SQL_SERVER: Final = _table(
    int,
    outage="1105 1204 1205 1222 3906 9002 17142 40197 40501 40613 49918 49919 49920",
    record="220 232 241 242 245 248 295 511 515 517 547 550 1946 2601 2627 2628 8114 8115 8134 8152 8169",
    statement="102 207 208 213 229 230 544 3609 50000",
)
# Oracle's numbers, and those of its client (DPY), of which most are of the class DatabaseError.
_ORACLE: Final = _table(
    str,
    outage="ORA-00018 ORA-00020 ORA-00028 ORA-00054 ORA-00060 ORA-00257 ORA-01033 ORA-01034 ORA-01089 ORA-01090 "
           "ORA-01092 ORA-01536 ORA-01555 ORA-01628 ORA-01652 ORA-01653 ORA-01654 ORA-01658 ORA-01659 ORA-01688 "
           "ORA-01691 ORA-02049 ORA-02391 ORA-04021 ORA-04031 ORA-08177 ORA-12170 ORA-12514 ORA-12516 ORA-12519 "
           "ORA-12520 ORA-12528 ORA-12541 ORA-16000 ORA-30006 ORA-30036 DPY-1001 DPY-4005 DPY-4011 DPY-4024",
    record="ORA-00001 ORA-01400 ORA-01401 ORA-01407 ORA-01426 ORA-01438 ORA-01476 ORA-01722 ORA-01830 ORA-01839 "
           "ORA-01843 ORA-01847 ORA-01858 ORA-01861 ORA-02290 ORA-02291 ORA-02292 ORA-12899 ORA-14400",
    statement="",
)
_MYSQL_CLIENTS: Final = frozenset({"MySQLdb", "asyncmy", "mariadb", "mysql", "pymysql"})
# The ones whose SQLSTATEs mean what they should: others have 22000, for example, for any error. SQLAlchemy's asyncpg
# has errors of its own.
_STATE_CLIENTS: Final = _MYSQL_CLIENTS | {"asyncpg", "pg8000", "psycopg", "psycopg2", "pyodbc", "sqlalchemy"}
_ODBC_SERVERS: Final = (("[SQL Server]", _SQL_SERVER), ("[MySQL]", _MYSQL), ("[ma-", _MYSQL))
_SQLITE_ERROR: Final = 1  # SQLITE_BUSY, SQLITE_FULL and so on have other numbers


def meaning_of(error: BaseException) -> Meaning | None:
    """Returns what an error of a database client means, from its server's code. None without a known code."""
    client = original_of(error)
    return None if _is_builtin(type(client)) else _by_number(client) or _by_state(client)


def original_of(error: BaseException) -> BaseException:
    """Returns the client's error of one that a library around clients raises: SQLAlchemy has it as `orig`, Django
    raises a copy from it.
    """
    original = attribute_of(error, "orig")
    if is_a(original, BaseException):
        return original
    cause = error.__cause__
    return cause if cause is not None and _is_copy(error, cause) else error


def _is_copy(error: BaseException, cause: BaseException) -> bool:
    """Returns whether an error has the arguments of its cause and the name of one of its classes, such as PEP 249's. A
    name alone proves nothing.
    """
    mine, its = _arguments(error), _arguments(cause)
    return 0 < len(mine) == len(its) and all(one is other for one, other in zip(mine, its, strict=True)) and any(
        base.__name__ == type(error).__name__ for base in type(cause).__mro__ if not _is_builtin(base))


def _by_number(error: BaseException) -> Meaning | None:
    clients = _clients(type(error))  # type: ignore[arg-type]  # mypy takes the __hash__ of its instances
    first, second, *_ = (*_arguments(error), None, None)
    if not clients.isdisjoint(_MYSQL_CLIENTS):
        return _MYSQL.get(number_of(first) or number_of(attribute_of(error, "errno")))
    if "pymssql" in clients:
        return _SQL_SERVER.get(number_of(first))
    if "pyodbc" in clients:
        return _by_number_of_odbc(text_of(second))
    if "oracledb" in clients:
        recoverable = attribute_of(first, "isrecoverable") is True
        return Meaning.OUTAGE if recoverable else _ORACLE.get(text_of(attribute_of(first, "full_code")))
    return Meaning.STATEMENT if number_of(attribute_of(error, "sqlite_errorcode")) & 0xFF == _SQLITE_ERROR else None


def _by_number_of_odbc(text: str) -> Meaning | None:
    """Only errors that a known server has sent have its numbers: those of drivers and of the system have others."""
    if (found := _ODBC.match(text)) is None:
        return None
    speaker, number = found.groups()
    return next((table.get(int(number)) for server, table in _ODBC_SERVERS if server in speaker), None)


def _by_state(error: BaseException) -> Meaning | None:
    """From the SQLSTATE. That of a client that is not known to tell it well is believed only if it means an outage,
    because then no record is skipped.
    """
    state = next(filter(_SQLSTATE.fullmatch, map(text_of, _states(error))), "")
    found = _STATES.get(state) or _STATES.get(state[:2])
    clients = _clients(type(error))  # type: ignore[arg-type]
    return None if found is not Meaning.OUTAGE and clients.isdisjoint(_STATE_CLIENTS) else found


def _states(error: BaseException) -> Iterator[Any]:
    yield attribute_of(error, "sqlstate")  # asyncpg, psycopg, and clients of MySQL
    yield attribute_of(error, "pgcode")  # psycopg2
    first, second, *_ = (*_arguments(error), None, None)
    if type(first) is dict and "S" in first:  # pg8000: the fields of the protocol; S is the severity
        yield first.get("C")
    elif text_of(second).startswith(f"[{text_of(first)}]"):  # pyodbc
        yield first


def _is_builtin(kind: type[object]) -> bool:
    return text_of(attribute_of(kind, "__module__")) == "builtins"


@lru_cache(256)  # asked for each of the thousands of errors of a search
def _clients(kind: type[BaseException]) -> frozenset[str]:
    return frozenset(text_of(attribute_of(base, "__module__")).partition(".")[0] for base in kind.__mro__)


def _arguments(error: BaseException) -> tuple[Any, ...]:
    found = attribute_of(error, "args")
    return found if type(found) is tuple else ()
