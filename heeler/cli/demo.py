"""`heeler demo`: flights.py in a terminal."""

from __future__ import annotations

import sys

import click

from heeler.cli.console.terminal import errors_without_trace, interrupting_signals


@click.command()
@click.option("--bootstrap-servers", metavar="HOST:PORT", help="Use this Kafka cluster instead of starting a broker.")
@click.option("--keep", is_flag=True, help="Keep everything running until Ctrl-C, and print curl commands to try.")
def demo(bootstrap_servers: str | None, keep: bool) -> None:
    """Move 336,776 flights from a CSV file through Kafka into Parquet, and check every count.

    The files stay in the folder heeler-demo, except after a failure or Ctrl-C.
    """
    with errors_without_trace(), interrupting_signals():
        from heeler.cli.support.flights import run_demo

        code = run_demo(bootstrap_servers, keep=keep)
    sys.exit(code)
