"""What the errors of database clients mean, by the codes of their servers. Pure; no client need be installed."""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import Enum, auto
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Final

_SQLSTATE: Final = re.compile(r"[0-9A-Z]{5}")


class Meaning(Enum):
    """The cause of an error."""

    OUTAGE = auto()  # the database does not work at the moment
    RECORD = auto()  # nothing but the record
    STATEMENT = auto()  # the record, the table or what the writer sends: no code can tell


def _table(outage: str, record: str, statement: str) -> Mapping[str, Meaning]:
    kinds = zip((outage, record, statement), Meaning, strict=True)
    return MappingProxyType({code: meaning for codes, meaning in kinds for code in codes.split()})


# SQLSTATEs, or their first two characters: the standard's, PostgreSQL's, MySQL's (70: a statement was ended) and those
# of ODBC (HYT: timeouts). 25: the transaction is read-only (after a failover) or too old; 55: locks.
_STATES: Final = _table(
    outage="08 40 53 57 58 70 HYT00 HYT01 25006 25P03 25P04 55006 55P03",
    record="22 23 40002 44",
    statement="21 27 2F 38 39 42 45 54 P0",
)
# MySQL's and MariaDB's, whose SQLSTATEs are often HY000 (unknown) and 42000 (any), and which not all clients tell. The
# ones from 2000 to 2999 are of the client.
_MYSQL: Final = _table(
    outage="1021 1037 1038 1040 1041 1042 1043 1053 1114 1129 1158 1159 1160 1161 1203 1205 1206 1213 1226 1290 1317 "
           "1615 1792 1836 1927 1969 2002 2003 2004 2005 2006 2011 2012 2013 2026 2055 3024 3168 3572 4031",
    record="1048 1062 1264 1265 1292 1300 1365 1366 1406 1411 1416 1451 1452 1526 1690 1748 3140 3156 3819 4025",
    statement="1044 1049 1054 1064 1118 1136 1142 1143 1146 1153 1162 1172 1364 1644",
)
# SQL Server's, as pymssql has them: an OperationalError unless it violates a constraint. pyodbc has SQLSTATEs.
_SQL_SERVER: Final = _table(
    outage="1105 1204 1205 1222 3906 9002 17142 40197 40501 40613 49918 49919 49920",
    record="220 232 241 242 245 248 295 515 547 2601 2627 2628 8114 8115 8134 8152",
    statement="102 207 208 213 229 230 50000",
)
# Oracle's numbers, and those of its client (DPY), of which most are of the class DatabaseError.
_ORACLE: Final = _table(
    outage="ORA-00018 ORA-00020 ORA-00054 ORA-00060 ORA-00257 ORA-01033 ORA-01034 ORA-01089 ORA-01090 ORA-01092 "
           "ORA-01536 ORA-01652 ORA-01653 ORA-01654 ORA-01658 ORA-01659 ORA-01688 ORA-01691 ORA-02049 ORA-02391 "
           "ORA-08177 ORA-12170 ORA-12514 ORA-12516 ORA-12519 ORA-12520 ORA-12528 ORA-12541 ORA-16000 ORA-30006 "
           "DPY-1001 DPY-4005 DPY-4011 DPY-4024",
    record="ORA-00001 ORA-01400 ORA-01401 ORA-01407 ORA-01426 ORA-01438 ORA-01476 ORA-01722 ORA-01830 ORA-01839 "
           "ORA-01843 ORA-01847 ORA-01858 ORA-01861 ORA-02290 ORA-02291 ORA-02292 ORA-12899 ORA-14400",
    statement="",
)
_MYSQL_CLIENTS: Final = frozenset({"MySQLdb", "asyncmy", "mariadb", "mysql", "pymysql"})
_SQLITE_ERROR: Final = 1  # SQLITE_BUSY, SQLITE_FULL and so on have other numbers


def meaning_of(error: BaseException) -> Meaning | None:
    """Returns what an error of a database client means, from its server's code. None without a known code. Libraries
    around clients have their errors as `orig` (SQLAlchemy), or raise one of the same name from them (Django).
    """
    client, cause = original_of(error), error.__cause__
    if cause is None and type(client).__module__ == "builtins":
        return None
    found = _by_number(client) or _by_state(client)
    if found is None and cause is not None and type(error).__name__ in {base.__name__ for base in type(cause).__mro__}:
        return _by_number(cause) or _by_state(cause)
    return found


def original_of(error: BaseException) -> BaseException:
    """Returns the client's error if that is one of SQLAlchemy's, which has it as `orig`."""
    original = attribute_of(error, "orig")
    return original if isinstance(original, BaseException) else error


def attribute_of(thing: object, *path: str) -> Any:
    """Returns an attribute of an error or the like, of that attribute, and so on. None if there is none, or if a
    property of the plugin's class raises an error.
    """
    found: Any = thing
    try:
        for name in path:
            found = getattr(found, name, None)
    except Exception:  # noqa: BLE001
        return None
    return found


def _by_state(error: BaseException) -> Meaning | None:
    """The attributes are those of asyncpg, psycopg, psycopg2 and clients of MySQL."""
    state = attribute_of(error, "sqlstate") or attribute_of(error, "pgcode")
    if not isinstance(state, str):
        first, second = _arguments(error)
        if isinstance(first, dict):  # pg8000: the fields of the protocol
            state = first.get("C")
        elif isinstance(second, str) and second.startswith(f"[{first}]"):  # ODBC
            state = first
    if not isinstance(state, str) or not _SQLSTATE.fullmatch(state):
        return None
    return _STATES.get(state) or _STATES.get(state[:2])


def _by_number(error: BaseException) -> Meaning | None:
    first, sqlite, number = _arguments(error)[0], attribute_of(error, "sqlite_errorcode"), attribute_of(error, "errno")
    if isinstance(sqlite, int):
        return Meaning.STATEMENT if sqlite & 0xFF == _SQLITE_ERROR else None
    if isinstance(oracle := attribute_of(first, "full_code"), str):
        return Meaning.OUTAGE if attribute_of(first, "isrecoverable") is True else _ORACLE.get(oracle)
    number = str(first if isinstance(first, int) else number)
    clients = _clients(type(error))  # type: ignore[arg-type]  # mypy takes the __hash__ of its instances
    if not clients.isdisjoint(_MYSQL_CLIENTS):
        return _MYSQL.get(number)
    return _SQL_SERVER.get(number) if "pymssql" in clients else None


@lru_cache(256)  # asked for each of the thousands of errors of a search
def _clients(kind: type[BaseException]) -> frozenset[str]:
    return frozenset(base.__module__.partition(".")[0] for base in kind.__mro__)


def _arguments(error: BaseException) -> tuple[Any, Any]:
    first, second, *_ = (*error.args, None, None)
    return first, second
