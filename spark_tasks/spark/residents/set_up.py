"""What plugins have set up in an executor process for all code in it: environment variables, a locale, limits etc.

Modules do so when they are imported, which happens once in a process, so it must not be taken from their connector; and
other connectors must not see it. So the worker keeps such a process for its connector alone (binding.py).

What the usual libraries change does not count, because it changes no result, and every process would soon be bound.
Nor does what cannot be seen here: settings of a library (the options of pandas, loggers other than the root logger),
and functions that a plugin has replaced, other than those with which connections are made.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # signal.getsignal makes enums, which takes twenty times as long
import decimal
import gc
import locale
import logging
import os
import resource
import socket
import ssl
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import numpy as np

# How many threads libraries compute with, and what they log; what TensorFlow sets for itself; the size of a terminal.
_TUNING: Final = (b"BLIS_NUM_THREADS", b"KMP_", b"MKL_DYNAMIC", b"MKL_NUM_THREADS", b"MKL_THREADING_LAYER",
                  b"NUMEXPR_", b"OMP_", b"OPENBLAS_", b"TF2_BEHAVIOR", b"TF_CPP_", b"TOKENIZERS_PARALLELISM",
                  b"TPU_ML_PLATFORM", b"VECLIB_MAXIMUM_THREADS", b"COLUMNS", b"LINES")
_SAME_LOCALES: Final = ("C", "POSIX", "C.UTF-8", "C.utf8")
_NOT_HANDLED: Final = (_signal.SIGKILL, _signal.SIGSTOP, _signal.SIGUSR2)  # stack_file.py restores the last one
_SIGNALS: Final = tuple(number for number in range(1, 32) if number not in _NOT_HANDLED)
_LIMITS: Final = (resource.RLIMIT_AS, resource.RLIMIT_CPU, resource.RLIMIT_DATA, resource.RLIMIT_FSIZE,
                  resource.RLIMIT_NOFILE)
_ENVIRONMENT: Final = "environment variables"
_VARIABLES: Final[Mapping[bytes, bytes]] = os.environ._data  # type: ignore[attr-defined]  # noqa: SLF001 - fast
_MAX_NAMES: Final = 5  # of variables

State = Mapping[str, Any]


class SetUp:
    """Finds what was set up in this process since its creation. For the main thread, which runs the splits."""

    def __init__(self) -> None:
        self._before = _state()
        self._umask = _umask()
        self._umask_changed = False

    def changes(self, *, with_umask: bool = False) -> str:
        """What has been set up, for a log line; "" if nothing was. Takes about 15 µs if nothing has changed. The umask
        can only be read by changing it for a moment, so it is not looked at after each split, until it was found.
        """
        try:
            now = _state()
            found = [] if now == self._before else list(_differences(self._before, now))
        except Exception:  # noqa: BLE001 - of objects of plugins; the split has run, so its answer has to be sent
            found = ["something that cannot be compared"]
        if (with_umask or self._umask_changed) and _umask() != self._umask:
            self._umask_changed = True  # otherwise the next split's answer would share this process again
            found.append("the umask")
        return ", ".join(found)


def _state() -> State:
    context = decimal.getcontext()  # without its flags, which every calculation sets
    return {
        _ENVIRONMENT: dict(_VARIABLES),
        "the time zone": (time.tzname, time.timezone),
        "the locale": locale.setlocale(locale.LC_ALL),
        "signal handlers": tuple(map(_signal.getsignal, _SIGNALS)),
        "resource limits": tuple(map(resource.getrlimit, _LIMITS)),
        "garbage collection": (gc.isenabled(), gc.get_threshold()),
        "the default socket timeout": socket.getdefaulttimeout(),
        "how connections are made": (
            socket.socket, socket.getaddrinfo, ssl.SSLContext, ssl._create_default_https_context),  # noqa: SLF001
        "the recursion limit": sys.getrecursionlimit(),
        "the thread switch interval": sys.getswitchinterval(),
        "a trace or profile function": (sys.gettrace(), sys.getprofile()),
        "standard output or error": (sys.stdout, sys.stderr),
        "the module search path": tuple(sys.path),
        "the decimal context": (context.prec, context.rounding, context.Emin, context.Emax, context.capitals,
                                context.clamp, context.traps.copy()),
        "numpy's error handling": np.geterr(),
        "warnings that are raised as errors": tuple(one for one in warnings.filters if one[0] == "error"),
        "the root logger": (logging.root.level, tuple(logging.root.handlers), logging.root.manager.disable),
        "the working folder": _folder(),
    }


def _differences(before: State, now: State) -> Iterator[str]:
    for what, value in now.items():
        if value == before[what]:
            continue
        if what == _ENVIRONMENT:
            if names := _changed_variables(before[what], value):
                more = f" and {len(names) - _MAX_NAMES} more" if len(names) > _MAX_NAMES else ""
                yield f"{what} ({', '.join(names[:_MAX_NAMES])}{more})"
        elif what not in _HARMLESS or not _HARMLESS[what](before[what], value):
            yield what


def _changed_variables(before: Mapping[bytes, bytes], now: Mapping[bytes, bytes]) -> list[str]:
    return sorted(os.fsdecode(name)[:100] for name in before.keys() | now.keys()
                  if before.get(name) != now.get(name) and not name.startswith(_TUNING))


def _are_not_lower(before: tuple[tuple[int, int], ...], now: tuple[tuple[int, int], ...]) -> bool:
    """More open files, say, hurt nobody."""
    def amount(limit: int) -> float:
        return float("inf") if limit == resource.RLIM_INFINITY else limit

    return all(amount(new) >= amount(old) for (old, _), (new, _) in zip(before, now, strict=True))


def _speak_alike(before: str, now: str) -> bool:
    """After `setlocale(LC_ALL, "")`, for example, where the environment names no language."""
    return _languages(before) == _languages(now)


def _languages(name: str) -> Mapping[str, str]:
    """The categories of a locale ("LC_CTYPE=C.UTF-8;LC_TIME=C" or a name for all) that are not as in C."""
    parts = [part.partition("=")[::2] for part in name.split(";")] if "=" in name else [("LC_CTYPE", name), ("", name)]
    return {category: one for category, one in parts if category == "LC_CTYPE" or one not in _SAME_LOCALES}


def _is_longer(before: tuple[str, ...], now: tuple[str, ...]) -> bool:
    """What is appended hides no module that others find."""
    return now[:len(before)] == before


_HARMLESS: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "resource limits": _are_not_lower,
    "the locale": _speak_alike,
    "the module search path": _is_longer,
}


def _folder() -> str | None:
    try:
        return os.getcwd()  # noqa: PTH109 - Path.cwd() takes ten times as long
    except OSError:  # it was deleted
        return None


def _umask() -> int:
    umask = os.umask(0o077)
    os.umask(umask)
    return umask
