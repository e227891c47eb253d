"""The end of a process that has run plugins."""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Final, NoReturn

_logger = logging.getLogger(__name__)
_GRACE_S: Final = 5.0


class ExecutorsParent(BaseException):
    """Raised in the process that a worker has forked as the parent of executor processes, which is to call `serve`. It
    leaves all frames of the command, which would otherwise be in every stack trace of an executor process.
    """

    def __init__(self, serve: Callable[[], NoReturn]) -> None:
        super().__init__()
        self.serve = serve


@contextmanager
def ending_despite_plugins() -> Iterator[None]:
    """A context manager for the body of the program. If Python has not ended a few seconds later, because it waits for
    threads, thread pools or child processes that a plugin has not ended, the process ends with `os._exit`.
    """
    code = 1
    try:
        yield
        code = 0
    except KeyboardInterrupt:
        code = 128 + signal.SIGINT
        raise
    except SystemExit as ending:
        code = ending.code if isinstance(ending.code, int) else int(ending.code is not None)
        raise
    finally:
        threading.Thread(target=_force_exit, args=(code,), name="ending", daemon=True).start()


def _force_exit(code: int) -> None:
    time.sleep(_GRACE_S)
    main = threading.main_thread()
    threads = sorted(one.name for one in threading.enumerate() if not one.daemon and one is not main)
    _logger.warning("The process ends without waiting any longer for what a plugin has started: %s",
                    ", ".join(threads) or "a child process")
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):  # the other end may be gone
            stream.flush()
    os._exit(code)
