"""The command line. Imports happen inside the commands: `heeler worker` has to answer REST within seconds."""
# ruff: noqa: PLC0415  (that is what those imports are for)

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import click

from heeler.errors import SetupError
from spark_tasks.errors import ConnectError
from spark_tasks.masking import process_secrets

_DEFAULT_PORT = 9092


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="heeler", prog_name="heeler")
def main() -> None:
    """Kafka Connect for Python and Spark."""


@main.command()
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--override", "overrides", multiple=True, metavar="KEY=VALUE", help="Replaces a setting of FILE.")
def worker(file: Path, overrides: tuple[str, ...]) -> None:
    """Run one distributed worker from a Kafka Connect worker properties FILE.

    CONNECT_… environment variables, named as for Kafka Connect's container images, go before the file, and --override
    before both.
    """
    from actors.logging_setup import set_up_logging
    from actors.masked_output import mask_output
    from actors.worker_config import load_worker_config

    with _told_without_trace():
        set_up_logging()
        config = load_worker_config(file, overrides, os.environ)
        set_up_logging(config["heeler.log.level"], config.prefixed("heeler.log.level."))
        from actors.starting import allow_many_files
        from actors.worker import run_worker

        allow_many_files()
        mask_output()
        code = run_worker(config)
    sys.exit(code)


@main.command()
@click.option("--port", type=click.IntRange(0, 65535), default=_DEFAULT_PORT, show_default=True,
              help="Port to listen on; 0 takes a free one.")
@click.option("--data-dir", type=click.Path(file_okay=False, path_type=Path),
              help="Folder that keeps the data; without it they are gone at the end.")
def broker(port: int, data_dir: Path | None) -> None:
    """Run a real single-node Kafka broker until Ctrl-C."""
    from heeler.broker import EmbeddedBroker
    from heeler.jars import KAFKA_VERSION

    stopped = threading.Event()
    with _told_without_trace(), _interrupting_signals():
        embedded = EmbeddedBroker(port, data_dir, progress=Progress())
        try:
            embedded.start()
            kept = "" if data_dir else " (removed at the end)"
            click.echo(f"Kafka {KAFKA_VERSION} on {embedded.bootstrap_servers}, data in {embedded.data_dir}{kept}. "
                       "Ctrl-C stops it.")
            while embedded.running:
                stopped.wait(0.2)
            raise SetupError(f"Kafka ended by itself. {embedded.last_words}")
        except KeyboardInterrupt:
            click.echo("Stopping Kafka.")
        finally:
            embedded.close()


@main.command()
@click.option("--bootstrap-servers", metavar="HOST:PORT", help="Use this Kafka instead of starting one.")
@click.option("--keep", is_flag=True, help="Leave everything running until Ctrl-C, with curl lines to try.")
def demo(bootstrap_servers: str | None, keep: bool) -> None:
    """Move 336,776 flights from a CSV file through Kafka into Parquet, and check every count.

    The files stay in the folder heeler-demo; after a failure or Ctrl-C nothing does.
    """
    with _told_without_trace(), _interrupting_signals():
        from heeler.demo import run_demo

        code = run_demo(bootstrap_servers, keep=keep)
    sys.exit(code)


class Progress:
    """One line on standard error that is written over; where that is no terminal, a line every few seconds."""

    def __init__(self, seconds: float = 5.0) -> None:
        self._seconds = seconds
        self._next = 0.0
        self._terminal = sys.stderr.isatty()

    def __call__(self, line: str) -> None:
        """Show the line; one that ends a step (it has no counts in it) is always shown."""
        if self._terminal:
            click.echo(f"\r\x1b[K{line}", err=True, nl=" in /" in line)
        elif time.monotonic() >= self._next or " in /" in line:
            self._next = time.monotonic() + self._seconds
            click.echo(line, err=True)


@contextmanager
def _told_without_trace() -> Iterator[None]:
    """What the user can mend (SetupError, ConfigError), or what a worker or Kafka refused, is one message and exit
    code 2.
    """
    try:
        yield
    except ConnectError as error:
        click.echo(process_secrets().mask(f"heeler: {error}"), err=True)
        sys.exit(2)


@contextmanager
def _interrupting_signals() -> Iterator[None]:
    """SIGTERM and SIGHUP (unless nohup has it ignored) end a foreground program as Ctrl-C does."""

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    names = [name for name in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(name) is not signal.SIG_IGN]
    before = [signal.signal(name, interrupt) for name in names]
    try:
        yield
    finally:
        for name, handler in zip(names, before, strict=True):
            signal.signal(name, handler)
