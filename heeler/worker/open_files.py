"""The limit of open files."""

from __future__ import annotations

import resource

_MOST = 65_536


def raise_open_files_limit() -> None:
    """Raises the limit of open files to the hard limit, up to a bound, as a JVM does: each REST client, broker and file
    takes a file descriptor. To be called before executor processes are started, which inherit it.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _MOST if hard == resource.RLIM_INFINITY else min(_MOST, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
