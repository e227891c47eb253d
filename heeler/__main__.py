"""The `heeler` command, also as `python -m heeler`."""

from __future__ import annotations

import errno
import os
import signal
import sys
from typing import Final

_NO_ROOM: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def run() -> None:
    """Runs the command. Ctrl-C while its modules are imported ends it as later on, without a trace. Neither does a full
    disk show one.
    """
    _open_standard_streams()
    try:
        from heeler.cli.main import main  # noqa: PLC0415 - takes long enough for a Ctrl-C
        from heeler.cli.support.process_exit import ExecutorsParent, ending_despite_plugins  # noqa: PLC0415 - with the next

        with ending_despite_plugins():
            try:
                main()
            except ExecutorsParent as parent:
                serve = parent.serve
            else:
                return
            serve()
    except KeyboardInterrupt:
        sys.exit(128 + signal.SIGINT)
    except OSError as error:
        if error.errno not in _NO_ROOM:
            raise
        where = f" {error.filename}" if error.filename else ""
        sys.stderr.write(f"heeler: cannot write{where}: {error.strerror}\n")
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # Python writes what is left of the output when it ends
        sys.exit(1)


def _open_standard_streams() -> None:
    """Opens the null device instead of a standard stream that is closed (`heeler doctor >&-`). Otherwise the next file
    or connection would get its number, and with it what other programs write there.
    """
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        if getattr(sys, name) is None:
            null = os.open(os.devnull, os.O_RDWR)
            os.dup2(null, number)
            os.set_inheritable(number, True)
            if null != number:
                os.close(null)
            setattr(sys, name, open(number, mode, closefd=False))  # noqa: SIM115 - for as long as it runs


if __name__ == "__main__":
    run()
