"""Watching files for changes: what makes `heeler run` restart."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

_LIBRARIES: Final = frozenset({"site-packages", "dist-packages", "node_modules", "__pycache__"})


class ChangedError(Exception):
    """A file has changed: everything restarts from the saved offsets. `folder`: the one that was watched."""

    def __init__(self, path: Path, folder: Path | None) -> None:
        super().__init__(f"{path} has changed")
        self.folder = folder


class CodeWatch:
    """Watches files, and the Python files of a folder except those of installed libraries.

    Without files, nothing is watched. Create it before the code is imported: changes since then count.
    """

    def __init__(self, files: Sequence[Path]) -> None:
        self._files = files
        self._folder: Path | None = None
        self._created_ns = time.time_ns()
        self._before: dict[Path, int] = {}

    def start(self, folder: Path | None) -> None:
        """Watches from now on, with the code in `folder`, if it is known."""
        self._folder = folder
        self._before = self._modified()
        now = time.time_ns()  # a file with a time in the future would count as changed after each restart
        for path, modified in self._before.items():
            if self._created_ns < modified <= now:
                self._before[path] = 0

    def check(self) -> None:
        """Raises ChangedError if a file has been changed, added or removed."""
        now = self._modified()
        for path in (*now, *self._before):
            if now.get(path) != self._before.get(path):
                raise ChangedError(path, self._folder)

    def _modified(self) -> dict[Path, int]:
        times = {}
        code = _code_in(self._folder) if self._files and self._folder is not None else ()
        for path in (*self._files, *code):
            try:
                times[path] = path.stat().st_mtime_ns
            except OSError:  # it is being rewritten
                continue
        return times


def _code_in(folder: Path) -> Iterable[Path]:
    for at, folders, files in os.walk(folder):
        inside = Path(at)
        folders[:] = [] if inside.name in _LIBRARIES else [name for name in folders if _is_own(inside / name)]
        yield from (inside / name for name in files if name.endswith(".py"))


def _is_own(folder: Path) -> bool:
    """Whether it is not a library's, an environment's or a tool's folder."""
    return not (folder.name in _LIBRARIES or folder.name.startswith(".") or (folder / "pyvenv.cfg").exists())
