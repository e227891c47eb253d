"""`heeler worker`: one distributed worker in this process."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

from heeler.cli.console.terminal import errors_without_trace
from heeler.cli.support.process_exit import ExecutorsParent


@click.command()
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
    from spark_tasks.spark.residents.forked_parent import end_parent, fork_parent
    from spark_tasks.spark.residents.local_parent import serve

    keep_environment()
    raise_open_files_limit()
    if fork_parent():  # while this process has no threads, and has not read its file
        raise ExecutorsParent(serve)
    from heeler.worker.config import load_worker_config
    from heeler.worker.failed_start import failures_logged
    from heeler.worker.logs import log_as_configured, set_up_logging
    from heeler.worker.masked_output import mask_output

    with errors_without_trace(), failures_logged():
        set_up_logging()
        # Their format is that of the first lines, too: of warnings about settings, or why the worker cannot start.
        config = load_worker_config(file, overrides, os.environ, given=log_as_configured)
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
