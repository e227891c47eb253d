"""A child process that cannot outlive this one, however this one ends.

A shell between the two processes holds the read end of a pipe. A line on the pipe is the name of a signal for the
child. When the pipe ends, because this process closed it or died (kill -9 included), the shell kills the child. The
kernel's parent-death signal would do the same only on Linux, and would fire when the *thread* that started the child
ends.

If the shell is killed while this process lives, nobody waits for the child: this process then kills it. If the part of
the shell that reads the pipe is killed, nobody would notice the death of this process: so it ends the child at once
(TERM, then KILL).
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import threading
from collections.abc import Mapping
from contextlib import nullcontext, suppress
from pathlib import Path

from spark_tasks.process.close_on_fork import close_on_fork
from spark_tasks.process.private_files import open_private

# $1: a folder to remove when this process dies, or nothing; the rest is the command. Descriptor 3 is the pipe: a shell
# gives background jobs no standard input. The watcher ignores the signals of a terminal, which go to all processes.
# After the end of the pipe it also ignores the main shell's signal, which would stop it before it removes the folder.
_SCRIPT = r"""
remove=$1; shift
exec 3<&0 </dev/null
"$@" 3<&- &
child=$!
trap 'kill -TERM $child 2>/dev/null' TERM
(
  trap '' INT HUP
  while read -r name <&3; do kill -s "$name" $child 2>/dev/null; done
  trap '' TERM
  kill -9 $child 2>/dev/null
  while kill -0 $child 2>/dev/null; do sleep 0.02; done
  [ -z "$remove" ] || rm -rf -- "$remove"
) &
watcher=$!
exec 3<&-
while :; do wait $child; code=$?; kill -0 $child 2>/dev/null || break; done
kill $watcher 2>/dev/null
exit $code
"""


_GRACE_S = 2.0  # from TERM to KILL if nobody reads the pipe


class GuardedProcess:
    """A command whose output goes to a file that only this user can read, or to an open file descriptor. If this
    process dies first, the command is killed and the folder `remove` is removed. If a part of its guard is killed, the
    command ends too. `env`: its environment; without it, that of this process.
    """

    def __init__(self, command: list[str], output: Path | int, remove: Path | None = None,
                 env: Mapping[str, str] | None = None) -> None:
        with nullcontext(output) if isinstance(output, int) else open_private(output, "a") as file:
            self._shell = subprocess.Popen(  # noqa: S603 - a fixed script; the command is the caller's
                ["/bin/sh", "-c", _SCRIPT, "heeler-guard", str(remove or ""), *command],
                stdin=subprocess.PIPE, stdout=file, stderr=subprocess.STDOUT, start_new_session=True,
                env=env,
            )
        self._group = self._shell.pid  # of shell and command; a number that is not used again before both have ended
        self._ending = threading.Lock()
        self._reader = select.poll()
        assert self._shell.stdin is not None  # noqa: S101 - it was opened as a pipe
        close_on_fork(self._shell.stdin)
        self._reader.register(self._shell.stdin, 0)  # only errors
        for noticing in (self._shell_ends, self._reader_ends):
            threading.Thread(target=noticing, name="guard", daemon=True).start()

    def _shell_ends(self) -> None:
        """Notices at once if the shell is killed."""
        self._shell.wait()
        self.exit_code()

    def _reader_ends(self) -> None:
        """Ends the shell as soon as the pipe has no reader, or the command has ended."""
        self._reader.poll()
        with suppress(subprocess.TimeoutExpired):
            self._shell.terminate()  # it passes this on, unless the command has ended
            self._shell.wait(_GRACE_S)
            return
        self._kill_group()

    def _kill_group(self) -> None:
        """Kills the command and what is left of its guard, once: later the number may be another group's."""
        with self._ending:
            group, self._group = self._group, 0
            if group:
                with suppress(ProcessLookupError):
                    os.killpg(group, signal.SIGKILL)

    @property
    def pid(self) -> int:
        """The guarding shell's process id; the command is its child."""
        return self._shell.pid

    def exit_code(self) -> int | None:
        """The command's exit code: None while it runs, 128 + n if signal n ended it."""
        code = self._shell.poll()
        if code is None or code >= 0:
            return code
        self._kill_group()
        return 128 - code

    def wait(self, seconds: float) -> int | None:
        """Waits for the command. Returns its exit code, or None if it still runs after this time."""
        with suppress(subprocess.TimeoutExpired):
            self._shell.wait(seconds)
        return self.exit_code()

    def signal(self, name: str) -> None:
        """Sends the command a signal by its name without SIG: TERM, STOP, CONT, KILL."""
        assert self._shell.stdin is not None  # noqa: S101 - it was opened as a pipe
        try:
            self._shell.stdin.write(f"{name}\n".encode())
            self._shell.stdin.flush()
        except (BrokenPipeError, ValueError):  # it has ended, or nobody reads the pipe
            if self.exit_code() is None and name == "TERM":
                self._shell.terminate()  # it passes this one on
            elif self.exit_code() is None and name == "KILL":
                self._kill_group()

    def close(self, grace: float = 0.0) -> None:
        """Ends the command: TERM and at most `grace` seconds, then KILL. Returns when it has ended. May be repeated."""
        if grace > 0 and self.exit_code() is None:
            self.signal("TERM")
            with suppress(subprocess.TimeoutExpired):
                self._shell.wait(grace)
        self.signal("KILL")
        self._shell.wait(30)
        assert self._shell.stdin is not None  # noqa: S101 - it was opened as a pipe
        with suppress(BrokenPipeError):
            self._shell.stdin.close()
