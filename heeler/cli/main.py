"""The command line. Imports happen inside the commands, so that each one starts fast."""
# ruff: noqa: PLC0415  (see above)

from __future__ import annotations

import os
import signal
import sys
import threading
from pathlib import Path
from typing import Any

import click
from typing_extensions import override

from heeler.cli.cluster.connectors import connectors
from heeler.cli.cluster.offsets import offsets
from heeler.cli.cluster.plugins import loggers, plugins
from heeler.cli.cluster.session import cluster_options, pass_on
from heeler.cli.cluster.top import top
from heeler.cli.cluster.validation import validate
from heeler.cli.completion import completion
from heeler.cli.console.terminal import (
    ProgressLines,
    errors_without_trace,
    escape_what_cannot_be_encoded,
    interrupting_signals,
)
from heeler.cli.doctor import doctor
from heeler.cli.foreground import run
from heeler.cli.install import install
from heeler.cli.process_exit import ExecutorsParent
from heeler.cli.scaffold import new
from heeler.cli.topics import topics
from heeler.cli.trial import try_
from heeler.errors import SetupError

_DEFAULT_PORT = 9092
_INTERRUPTED = 128 + signal.SIGINT  # the exit code that shells report after Ctrl-C


class Commands(click.Group):
    """Commands whose exit code after Ctrl-C is the shell's."""

    @override
    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            sys.exit(_INTERRUPTED)
        except click.Abort as error:  # a question was answered with Ctrl-C, or with no
            if not isinstance(error.__context__, KeyboardInterrupt):
                raise
            click.echo(err=True)  # so that the shell's prompt begins on a new line
            sys.exit(_INTERRUPTED)


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="heeler", prog_name="heeler")
@cluster_options
@click.pass_context
def main(context: click.Context, /, **options: Any) -> None:
    """Kafka Connect for Python and Spark.

    Cluster options may be given before, within or after a command. The last value wins.
    """
    escape_what_cannot_be_encoded()
    pass_on(context, options)


@main.command()
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--override", "overrides", multiple=True, metavar="KEY=VALUE", help="Override a setting in FILE.")
def worker(file: Path, overrides: tuple[str, ...]) -> None:
    """Run one distributed worker from a Kafka Connect worker properties FILE.

    CONNECT_… environment variables, named as for Kafka Connect's container images, override the file, and --override
    overrides both.
    """
    from heeler.worker.open_files import raise_open_files_limit
    from heeler.worker.signals import end_on_signals

    signalled = end_on_signals()
    from spark_tasks.spark.environment import keep_environment
    from spark_tasks.spark.residents.local import end_parent, fork_parent, serve

    keep_environment()
    raise_open_files_limit()
    if fork_parent():  # while this process has no threads, and has not read its file
        raise ExecutorsParent(serve)
    from heeler.worker.config import load_worker_config
    from heeler.worker.logs import set_up_logging
    from heeler.worker.masked_output import mask_output

    with errors_without_trace():
        set_up_logging()
        config = load_worker_config(file, overrides, os.environ)
        set_up_logging(config["heeler.log.level"], config.log_levels,
                       form=config["heeler.log.format"])
        if not config.starts_executors:
            end_parent()
        from heeler.worker.process import run_worker
        from heeler.worker.startup import tune_garbage_collection

        tune_garbage_collection()
        mask_output()
        code = run_worker(config, signalled)
    sys.exit(code)


@main.command()
@click.option("--port", type=click.IntRange(0, 65535), default=_DEFAULT_PORT, show_default=True,
              help="Port to listen on; 0 picks a free port.")
@click.option("--data-dir", type=click.Path(file_okay=False, path_type=Path),
              help="Folder to keep the data in; without it, the data is removed when the broker stops.")
def broker(port: int, data_dir: Path | None) -> None:
    """Run a real single-node Kafka broker until Ctrl-C."""
    from rich.console import Console

    from heeler.embedded_kafka.broker import EmbeddedBroker
    from heeler.embedded_kafka.jars import KAFKA_VERSION

    stopped = threading.Event()
    progress = ProgressLines(Console(stderr=True))
    with errors_without_trace(), interrupting_signals():
        embedded = EmbeddedBroker(port, data_dir, progress=progress)
        try:
            with progress:
                embedded.start()
            kept = "" if data_dir else " (removed at the end)"
            click.echo(f"Kafka {KAFKA_VERSION} on {embedded.bootstrap_servers}, data in {embedded.data_dir}{kept}. "
                       "Ctrl-C stops it.")
            while embedded.running:
                stopped.wait(0.2)
            raise SetupError(f"Kafka stopped unexpectedly. Its last output:\n{embedded.last_output or '(none)'}")
        except KeyboardInterrupt:
            click.echo("Stopping Kafka.")
        finally:
            embedded.close()


@main.command()
@click.option("--bootstrap-servers", metavar="HOST:PORT", help="Use this Kafka cluster instead of starting a broker.")
@click.option("--keep", is_flag=True, help="Keep everything running until Ctrl-C, and print curl commands to try.")
def demo(bootstrap_servers: str | None, keep: bool) -> None:
    """Move 336,776 flights from a CSV file through Kafka into Parquet, and check every count.

    The files stay in the folder heeler-demo, except after a failure or Ctrl-C.
    """
    with errors_without_trace(), interrupting_signals():
        from heeler.cli.demo import run_demo

        code = run_demo(bootstrap_servers, keep=keep)
    sys.exit(code)


@main.command()
def warm() -> None:
    """Compile code and record class data that make later starts faster. Run it after an installation, or in an image
    build.
    """
    import heeler.worker.process  # noqa: F401 - to be compiled
    from heeler.cli.bytecode import compile_imported
    from spark_tasks.spark.warm import prepare

    prepare()
    compile_imported()


plugins.add_command(install)
for command in (completion, connectors, doctor, loggers, new, offsets, plugins, run, top, topics, try_, validate):
    main.add_command(command)
