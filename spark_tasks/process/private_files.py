"""Files and folders that no other user of the machine can read or can have written to."""

from __future__ import annotations

import os
import stat
import tempfile
from pathlib import Path
from typing import IO


def private_folder(purpose: str) -> Path:
    """A folder for the purpose that only this user can read, below the temporary folder. It is the same in each call,
    unless another user has taken its name: then it is a new one.
    """
    folder = name_of_private(purpose)
    owner = _user()
    folder.mkdir(mode=0o700, exist_ok=True)
    status = folder.lstat()  # does not follow another user's link
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != owner or status.st_mode & 0o077:
        folder = Path(tempfile.mkdtemp(prefix=f"heeler-{purpose}-"))
    return folder


def name_of_private(purpose: str) -> Path:
    """The path that `private_folder` returns unless another user has taken it."""
    return Path(tempfile.gettempdir()) / f"heeler-{purpose}-{_user()}"


def open_private(file: Path, mode: str) -> IO[str]:
    """Open a text file for writing ("w", "a" or "x"); a new file can be read by its owner only."""
    return open(file, mode, encoding="utf-8", opener=lambda path, flags: os.open(path, flags, 0o600))


def trusted(file: Path) -> bool:
    """Whether only root, this user or the owner of heeler's files can have written the file. Raises OSError."""
    owners = {0, _user(), Path(__file__).stat().st_uid}
    return all(s.st_uid in owners and not s.st_mode & 0o002 for s in (file.stat(), file.parent.stat()))


def _user() -> int:
    return os.getuid() if hasattr(os, "getuid") else 0
