"""The `heeler` command, also as `python -m heeler`."""

from __future__ import annotations

import signal
import sys


def run() -> None:
    """Runs the command. Ctrl-C while its modules are imported ends it as later on, without a trace."""
    try:
        from heeler.cli.main import main  # noqa: PLC0415 - takes long enough for a Ctrl-C

        main()
    except KeyboardInterrupt:
        sys.exit(128 + signal.SIGINT)


if __name__ == "__main__":
    run()
