"""The `heeler` command on a terminal."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import sys
import time

from tests.rigs.cli_fake import STALLS
from tests.rigs.fake_connect import FakeConnect


class OnATerminal:
    """The command in a process with a terminal of its own."""

    def __init__(self, *words: str, kind: str = "xterm") -> None:
        self._control, terminal = pty.openpty()
        name = os.ttyname(terminal)  # the first one that a session opens is where its Ctrl-C comes from
        shell = ["sh", "-c", f'exec "$@" <{name} >{name} 2>&1', "sh", sys.executable, "-m", "heeler", *words]
        self.process = subprocess.Popen(shell, start_new_session=True, env={**os.environ, "TERM": kind})
        self.output = ""
        self._terminal = terminal  # open as long as this reads

    def until(self, *texts: str) -> None:
        """Wait until it has shown all of them since the last call."""
        deadline = time.monotonic() + 60
        while missing := [text for text in texts if text not in self.output]:
            assert self.process.poll() is None, f"it has ended without {missing}: {self.output}"
            assert time.monotonic() < deadline, f"it does not show {missing}: {self.output}"
            if select.select([self._control], [], [], 1)[0]:
                self.output += os.read(self._control, 65_536).decode(errors="replace")
        self.output = ""

    def interrupt(self) -> None:
        os.write(self._control, b"\x03")

    def end(self) -> int:
        """The exit code; the rest of what it has shown is in `output`."""
        code = self.process.wait(30)
        while select.select([self._control], [], [], 0)[0]:
            self.output += os.read(self._control, 65_536).decode(errors="replace")
        os.close(self._terminal)
        os.close(self._control)
        return code


def follows_changes_until_ctrl_c(fake: FakeConnect, shown: OnATerminal) -> None:
    """What it shows is what the fake responds, errors too."""
    fake.answers["GET /connectors"] = (400, {"message": "not now"})
    shown.until("not now")
    fake.answers["GET /connectors"] = (200, {"c": {"status": STALLS}})
    shown.until("task 1", "stalled since")
    shown.interrupt()
    assert shown.end() == 130
