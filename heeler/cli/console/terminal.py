"""The common part of all commands: errors without a stack trace, signals that end a foreground program, progress."""

from __future__ import annotations

import io
import logging
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Self, TextIO, cast

import click

from spark_tasks.errors import ConnectError

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress as Bars

    from heeler.embedded_kafka.jars import Step


@contextmanager
def errors_without_trace() -> Iterator[None]:
    """Prints errors that the user can fix (SetupError, ConfigError), and refusals of a worker or of Kafka, as one
    message, and exits with the error's exit code, or 2 if it has none (docs/cli.md).
    """
    try:
        yield
    except ConnectError as error:
        from spark_tasks.config.masking import process_secrets

        click.echo(process_secrets().mask(f"heeler: {error}"), err=True)
        sys.exit(getattr(error, "exit_code", 2))


def escape_what_cannot_be_encoded() -> None:
    """Makes standard output write characters that are not in the terminal's encoding as escapes, as standard error
    does; otherwise a connector with such a name would end a command with a stack trace.
    """
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors == "strict":
        sys.stdout.reconfigure(errors="backslashreplace")


@contextmanager
def logging_disabled(level: int) -> Iterator[None]:
    """Logs nothing of this level and below: what it would say is in the command's own output."""
    before = logging.root.manager.disable
    logging.disable(level)
    try:
        yield
    finally:
        logging.disable(before)


@contextmanager
def shown_when_slow(text: str) -> Iterator[None]:
    """Shows a spinner on the terminal's error stream if the body runs for more than a second."""
    if not sys.stderr.isatty():
        yield
        return
    lock = threading.Lock()
    stop: list[Callable[[], None]] = []

    def show() -> None:
        from rich.console import Console

        with lock:
            if not timer.finished.is_set():
                status = Console(stderr=True).status(text, spinner="dots")
                status.start()
                stop.append(status.stop)

    timer = threading.Timer(1.0, show)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        with lock:
            for end in stop:
                end()


@contextmanager
def plugins_print_apart() -> Iterator[TextIO]:
    """Redirects the output of plugins to standard error, with secrets masked. Yields standard output, which only the
    command itself writes to, because programs read it.
    """
    from heeler.worker.masked_output import MaskedStream

    out, err = sys.stdout, sys.stderr
    sys.stdout = sys.stderr = cast("TextIO", MaskedStream(err))
    try:
        yield out
    finally:
        sys.stdout, sys.stderr = out, err


@contextmanager
def interrupting_signals() -> Iterator[None]:
    """Lets SIGTERM and SIGHUP (unless nohup ignores it) end a foreground program as Ctrl-C does."""

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    names = [name for name in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(name) is not signal.SIG_IGN]
    before = [signal.signal(name, interrupt) for name in names]
    try:
        yield
    finally:
        for name, handler in zip(names, before, strict=True):
            signal.signal(name, handler)


class ProgressLines:
    """Prints lines unchanged, and Steps as one progress bar; without a terminal, Steps are not shown."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._bars: Bars | None = None

    def __call__(self, line: str) -> None:
        """Shows a line or a Step."""
        from heeler.embedded_kafka.jars import Step

        if not isinstance(line, Step):
            self._console.print(line, markup=False, highlight=False, soft_wrap=True)
        elif self._console.is_terminal:
            self._show(line)

    def _show(self, step: Step) -> None:
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn
        from rich.progress import Progress as Bars

        if self._bars is None:
            self._bars = Bars(TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(),
                              console=self._console)
            self._bars.start()
            self._bars.add_task("")
        self._bars.update(self._bars.task_ids[0], description=step, completed=step.done, total=step.total)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Restores the terminal."""
        if self._bars is not None:
            self._bars.stop()
            self._bars = None
