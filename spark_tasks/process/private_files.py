"""Files and folders that other users of the machine cannot read, and files that they cannot have written."""

from __future__ import annotations

import errno
import os
import stat
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO


def private_folder(purpose: str) -> Path:
    """Returns a folder below the temporary folder that only this user can read. Every call returns the same folder for
    a purpose, unless another user owns that name: then each call creates a new one.
    """
    folder = name_of_private(purpose)
    with suppress(FileExistsError):  # also another user's file, or a link that leads nowhere
        folder.mkdir(mode=0o700)
    status = folder.lstat()  # does not follow another user's link
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != _user() or status.st_mode & 0o077:
        folder = Path(tempfile.mkdtemp(prefix=f"heeler-{purpose}-"))
    return folder


def name_of_private(purpose: str) -> Path:
    """Returns the path that `private_folder` uses unless another user owns it."""
    return Path(tempfile.gettempdir()) / f"heeler-{purpose}-{_user()}"


def user_caches() -> Path:
    """Returns the folder for caches: XDG_CACHE_HOME, or ~/.cache. For a user without a home folder, as in containers
    that run with any user id, it is below the temporary folder.
    """
    xdg = os.environ.get("XDG_CACHE_HOME")
    if xdg:
        return Path(xdg)
    home = os.path.expanduser("~")  # noqa: PTH111 - Path's raises RuntimeError
    return Path(home, ".cache") if home != "~" else private_folder("cache")


def open_private(file: Path, mode: str) -> IO[str]:
    """Opens a text file for writing (mode "w", "a" or "x"). Only its owner can read a new file."""
    return open(file, mode, encoding="utf-8", opener=lambda path, flags: os.open(path, flags, 0o600))


@contextmanager
def memory_file(content: bytes) -> Iterator[str]:
    """A context manager for the path of a file that only this user can read and that is gone with the process, even
    after kill -9: for secrets that a library reads only from files. Where there are no files in memory, it is a
    temporary file. Raises OSError.
    """
    handle = _in_memory()
    if handle is not None:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            yield f"{_HANDLES}/{handle}"
        return
    with tempfile.TemporaryDirectory(prefix="heeler-private-") as folder:
        named = Path(folder, "file")
        named.touch(0o600)
        named.write_bytes(content)
        yield str(named)


_HANDLES = "/proc/self/fd"  # the paths of open files
_NOEXEC = 8  # MFD_NOEXEC_SEAL, Linux 6.3


def _in_memory() -> int | None:
    """Returns a new file in memory, or None: only Linux has them, and a sandbox may forbid them or have no /proc."""
    if sys.platform != "linux" or not Path(_HANDLES).is_dir():
        return None
    for flags in (_NOEXEC, 0):  # a hardened system requires the first one, an older one does not know it
        try:
            handle = os.memfd_create("heeler", os.MFD_CLOEXEC | flags)
        except OSError as error:
            if error.errno in {errno.EMFILE, errno.ENFILE}:
                raise  # a temporary file is no remedy
            continue
        os.fchmod(handle, 0o600)
        return handle
    return None


def trusted(file: Path) -> bool:
    """Returns whether only root, this user or the owner of heeler's files can write to the file and its folder. Raises
    OSError.
    """
    owners = {0, _user(), Path(__file__).stat().st_uid}
    return all(s.st_uid in owners and not s.st_mode & 0o002 for s in (file.stat(), file.parent.stat()))


def _user() -> int:
    return os.getuid() if hasattr(os, "getuid") else 0
