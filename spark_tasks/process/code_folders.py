"""Folders from which heeler's processes load code. Connectors must not write to them.

Otherwise anybody who may create connectors could choose the code that the next worker runs. Other files of the operator
(a crontab, SSH keys) are protected only by the permissions of the user that runs the worker.
"""

from __future__ import annotations

import importlib.machinery
import os
import site
import sys
import sysconfig
from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import cache, lru_cache
from pathlib import Path

from spark_tasks.errors import ConnectError
from spark_tasks.process.private_files import name_of_private, user_caches

_LIBRARIES = ("stdlib", "platstdlib", "purelib", "platlib", "scripts")
_ELSEWHERE = ("SPARK_HOME", "SPARK_CONF_DIR", "HEELER_CACHE", "NUMBA_CACHE_DIR")
_MAX_PATHS = 4096  # in the cache of a process
_CODE = (*importlib.machinery.all_suffixes(), ".pth", ".zip", ".whl", ".egg")  # what Python imports from sys.path
plugin_folders: dict[str, None] = {}


def add(folders: Iterable[str]) -> None:
    """Adds folders of `plugin.path` to the process's list."""
    plugin_folders.update((os.path.abspath(folder), None) for folder in folders)  # noqa: PTH100 - a link counts as well


def of_plugins() -> tuple[str, ...]:
    """Returns the added folders. A writer sends them to the executors, whose own list is empty."""
    return tuple(plugin_folders)


def complaint(path: str, plugins: Sequence[str]) -> str | None:
    """Returns why nothing may be written to a file or folder, or None if writing is allowed. Follows symbolic links.

    `plugins`: the result of `of_plugins` on the worker.
    """
    real = real_path(path)
    ours = tuple((folder, real_path(folder)) for folder in plugins)  # each time: a link may change
    if (found := _around(real, ours, python_folders())) is not None:
        folder, what = found
        return (f"{path} is in {folder}, from where the worker loads {what}: connectors cannot write there. "
                "Use a folder that is only for data")
    if real.endswith(_CODE) and any(_within(real, os.path.realpath(folder or os.curdir)) for folder in sys.path):
        return f"Python would import {path} as code: connectors cannot write it. Use a folder that is only for data"
    return None


def real_path(path: str) -> str:
    """Returns the same as `os.path.realpath`. For a path that exists, Linux knows it; Python looks at each of its
    folders, which takes ten times as long.
    """
    if sys.platform == "linux":
        with suppress(OSError):
            found = os.open(path, os.O_PATH)
            try:
                real = os.readlink(f"/proc/self/fd/{found}")  # noqa: PTH115 - Path takes longer
            finally:
                os.close(found)
            if real.startswith(os.sep):
                return real
    return os.path.realpath(path)


@lru_cache(maxsize=_MAX_PATHS)
def _around(
    real: str, plugins: tuple[tuple[str, str], ...], python: tuple[tuple[str, str], ...]
) -> tuple[str, str] | None:
    """Returns the folder that this path is in, and what the worker loads from there; None if it is in none of them.
    Cached, since every batch of a sink asks. All paths are real ones, and folders have their names too.
    """
    return next(((folder, what) for folders, what in ((plugins, "plugins"), (python, "code"))
                 for folder, where in folders if _within(real, where)), None)


def mistakes(key: str, path: str | None) -> dict[str, list[str]]:
    """Returns the result of a connector's `validate` for the path that the setting `key` names."""
    why = complaint(path, of_plugins()) if path else None
    return {key: [why]} if why else {}


def check(path: str, plugins: Sequence[str]) -> None:
    """Raises ConnectError if nothing may be written to the path."""
    if (why := complaint(path, plugins)) is not None:
        raise ConnectError(why)


def _within(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip(os.sep) + os.sep)


@cache
def python_folders() -> tuple[tuple[str, str], ...]:
    """Returns the folders of Python, its libraries, heeler and caches of compiled code, each as a pair of its name and
    its real path. Cached, since every batch of a sink needs them.
    """
    ours = Path(__file__).resolve().parents[2]
    caches = user_caches()
    folders = dict.fromkeys((
        *(sysconfig.get_path(name) for name in _LIBRARIES), *site.getsitepackages(), site.getusersitepackages(),
        *(str(ours / package) for package in ("actors", "heeler", "rest", "spark_tasks", "storage")),
        str(caches / "heeler"), str(caches / "numba"), str(name_of_private("numba")),
        *(os.environ[name] for name in _ELSEWHERE if os.environ.get(name)),
    ))
    return tuple((folder, os.path.realpath(folder)) for folder in folders)
