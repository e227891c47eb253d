"""`heeler loggers`: a worker's log levels."""

from __future__ import annotations

import datetime as dt

import click

from heeler.cli.client.session import ClusterSession, cluster_command, cluster_group
from heeler.cli.console.safe_text import safe
from spark_tasks.process.log_levels import LEVELS


@cluster_group
def loggers() -> None:
    """Show and change log levels. Changes last until the worker ends.

    A worker with its own admin.listeners serves log levels only there: give one of these addresses as --url.
    """


@loggers.command("list")
@cluster_command
def list_loggers(session: ClusterSession) -> None:
    """List the loggers whose level is set, on the worker that responds."""
    from heeler.cli.client.responses import as_object, as_text

    loggers = as_object(session.call("GET", "/admin/loggers"), "the loggers")
    rows = []
    for name, response in sorted(loggers.items()):
        level = as_object(response, "a logger")
        rows.append((name, as_text(level.get("level")), _time(level.get("last_modified"))))
    session.show(loggers, ("LOGGER", "LEVEL", "SINCE"), rows, "No level of a logger is set.")


@loggers.command("set")
@click.argument("logger")
@click.argument("level", type=click.Choice(list(LEVELS), case_sensitive=False))
@click.option("--cluster", is_flag=True, help="Set it on all workers, not only on the one that responds.")
@cluster_command
def set_logger(session: ClusterSession, logger: str, level: str, cluster: bool) -> None:
    """Set the level of LOGGER and of the loggers below it; root stands for all loggers."""
    from heeler.cli.client.responses import as_list
    from heeler.cli.client.rest_client import path_of

    scope = {"scope": "cluster"} if cluster else {"scope": "worker"}
    response = session.call("PUT", path_of("admin", "loggers", logger), {"level": level.upper()}, scope)
    changed = [logger] if response is None else as_list(response, "the changed loggers")
    session.show(changed, ("CHANGED",), [(name,) for name in changed], f"There is no logger {safe(logger)}.")


def _time(milliseconds: object) -> str:
    """The time in UTC, empty if it is not known."""
    if not isinstance(milliseconds, int):
        return ""
    try:
        return dt.datetime.fromtimestamp(milliseconds / 1000, dt.UTC).isoformat(timespec="seconds")
    except (ValueError, OverflowError, OSError):
        return str(milliseconds)
