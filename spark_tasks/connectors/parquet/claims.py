"""Ensures that at most one file of the parquet sink starts at any offset, even with several writers.

A check of the folder is not enough: a task that is suspended after the check, and resumed when its successor has
written the same offsets with another end, would add its file. So a task first claims the offset: it links the file to a
second name, which contains only the first offset. This fails if the name exists. All tasks continue where a file ends,
so their files form one chain. A claim keeps the data of the file: if its task ends before the final rename, a later
task completes it.
"""

from __future__ import annotations

import logging
import os
import re
import time
from contextlib import suppress
from pathlib import Path

import pyarrow.parquet as pq

from spark_tasks.connectors.parquet.file_names import OffsetRange, parse

_logger = logging.getLogger(__name__)

RANGE_KEY = "heeler.offsets"  # in the file's metadata: its final name
_CLAIM = re.compile(r"\.(?P<topic>.+)-(?P<partition>\d+)-(?P<first>\d{20})\.claim")
KEPT_S = 3600  # the lifetime of a claim, which keeps the data on the disk even if the file is removed


def name_of_claim(folder: Path, held: OffsetRange) -> Path:
    """Returns the path of the claim for a file with these offsets."""
    return folder / f".{held.topic}-{held.partition}-{held.first:020d}.claim"


def claim(folder: Path, path: str, held: OffsetRange) -> bool:
    """Claims the first offset for a file. Returns whether the file, or one with exactly the same offsets, has the
    claim; always True on file systems without hard links.
    """
    name = name_of_claim(folder, held)
    try:
        os.link(path, name)
    except FileExistsError:
        return _range_of(name) == held
    except FileNotFoundError:
        raise
    except OSError as error:
        _logger.debug("Cannot create hard links in %s: %s", folder, error)
    return True


def finish(folder: Path, topic: str, partition: int) -> None:
    """Renames claimed files that do not have their final name yet, and removes old claims. Does not restore a file that
    was removed after it had its final name.
    """
    for name in folder.glob(f".{_escaped(topic)}-{partition}-*.claim") if folder.is_dir() else ():
        match = _CLAIM.fullmatch(name.name)
        held = _range_of(name) if match and match["topic"] == topic else None
        if held is None:
            continue
        with suppress(FileExistsError, FileNotFoundError):
            if name.stat().st_nlink > 1:  # the file still has its hidden or its final name
                os.link(name, folder / held.name)
        with suppress(FileNotFoundError):
            if name.stat().st_nlink == 1 or time.time() - name.stat().st_mtime > KEPT_S:
                name.unlink()


def _range_of(path: Path) -> OffsetRange | None:
    try:
        metadata = pq.read_metadata(path).metadata or {}
    except FileNotFoundError:
        return None
    return parse(metadata.get(RANGE_KEY.encode(), b"").decode())


def _escaped(topic: str) -> str:
    return re.sub(r"([*?[])", r"[\1]", topic)
