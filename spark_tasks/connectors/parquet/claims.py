"""Ensures that at most one file of the parquet sink starts at any offset, even with several writers.

A check of the folder is not enough: a task that is suspended after the check, and resumed when its successor has
written the same offsets with another end, would add its file. So a task first claims the offset: it links the file to a
second name, which contains only the first offset. This fails if the name exists. All tasks continue where a file ends,
so their files form one chain. A claim says which hidden file has it: if its task ends before the final rename, a later
task does the rename. Only a rename of the hidden file makes it visible, so this happens once, whatever readers do with
the file then.
"""

from __future__ import annotations

import errno
import logging
import os
import re
import time
from contextlib import suppress
from pathlib import Path

import pyarrow.parquet as pq

from spark_tasks.connectors.parquet.file_names import OffsetRange, parse

_logger = logging.getLogger(__name__)

_RANGE, _HIDDEN = "heeler.offsets", "heeler.written.as"  # in the file's metadata: its final and its hidden name
_CLAIM = re.compile(r"\.(?P<topic>.+)-(?P<partition>\d+)-(?P<first>\d{20})\.claim")
KEPT_S = 3600  # the lifetime of a claim, which keeps the data on the disk even if the file is removed
_NO_LINKS = {errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK}  # of file systems without them


def name_of_claim(folder: Path, held: OffsetRange) -> Path:
    """Returns the path of the claim for a file with these offsets."""
    return folder / f".{held.topic}-{held.partition}-{held.first:020d}.claim"


def labels(path: str, held: OffsetRange) -> dict[str, str]:
    """Returns what the metadata of a hidden file must contain, so that its claim can complete it."""
    return {_RANGE: held.name, _HIDDEN: Path(path).name}


def claim(folder: Path, path: str, held: OffsetRange) -> bool:
    """Claims the first offset for a hidden file. Returns whether the file has the claim; always True on file systems
    without hard links. Raises OSError.
    """
    name = name_of_claim(folder, held)
    try:
        os.link(path, name)
    except FileExistsError:
        return _labels_of(name) == (held, Path(path).name)  # a network file system may have repeated the request
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        _logger.debug("Cannot create hard links in %s: %s", folder, error)
    return True


def finish(folder: Path, topic: str, partition: int) -> None:
    """Renames claimed files that still have their hidden name, and removes old claims and those of removed files."""
    for name in folder.glob(f".{_escaped(topic)}-{partition}-*.claim") if folder.is_dir() else ():
        match = _CLAIM.fullmatch(name.name)
        held, hidden = _labels_of(name) if match and match["topic"] == topic else (None, "")
        if held is None:
            continue
        final = folder / held.name
        if hidden:  # claims of earlier versions do not say it: their batch is repeated
            with suppress(FileNotFoundError):  # it was renamed, or aborted
                (folder / hidden).rename(final)
                sync_folder(folder)
        with suppress(FileNotFoundError):
            if not final.exists() or time.time() - name.stat().st_mtime > KEPT_S:
                name.unlink()


def sync_folder(folder: Path) -> None:
    """Forces the names in a folder to the disk."""
    fd = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _labels_of(path: Path) -> tuple[OffsetRange | None, str]:
    """Returns the offsets and the hidden name in a file's metadata."""
    try:
        metadata = pq.read_metadata(path).metadata or {}
    except FileNotFoundError:
        return None, ""
    return parse(metadata.get(_RANGE.encode(), b"").decode()), metadata.get(_HIDDEN.encode(), b"").decode()


def _escaped(topic: str) -> str:
    return re.sub(r"([*?[])", r"[\1]", topic)
