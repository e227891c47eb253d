"""The result of one check, and a wrapper that keeps a failing check from ending the others."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from spark_tasks.errors import ConnectError


class Verdict(StrEnum):
    """The result of a check; `warning`: it works, but deserves attention."""

    OK = "ok"
    WARNING = "warning"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class Finding:
    """`message`: what was found, and what to do unless it is ok."""

    about: str
    verdict: Verdict
    message: str


Check = Callable[[], Iterable[Finding]]


def findings_of(about: str, check: Check) -> Iterator[Finding]:
    """A check's findings; an exception becomes a finding too, so that no check ends the others."""
    try:
        yield from check()
    except ConnectError as error:
        yield Finding(about, Verdict.ERROR, str(error))
    except Exception as error:  # noqa: BLE001 - on a broken machine a check may fail in any way
        yield Finding(about, Verdict.ERROR, f"The check itself failed: {error!r}")
