"""`heeler plugins` and `heeler loggers`: a worker's plugins and its log levels."""
# ruff: noqa: PLC0415  (imports inside: the command line starts fast)

from __future__ import annotations

import datetime as dt

import click

from heeler.cli.cluster.session import ClusterSession, cluster_command, cluster_group
from heeler.cli.console.safe_text import safe
from spark_tasks.process.log_levels import LEVELS


@cluster_group
def plugins() -> None:
    """Show and install plugins."""


@plugins.command("list")
@click.option("--all", "every", is_flag=True, help="Include converters, transforms and predicates.")
@cluster_command
def list_plugins(session: ClusterSession, every: bool) -> None:
    """List the connector plugins of the worker that responds."""
    from heeler.cli.cluster.responses import as_list, as_object, as_text

    plugins = [as_object(plugin, "a plugin") for plugin in as_list(
        session.call("GET", "/connector-plugins", query={"connectorsOnly": str(not every).lower()}), "the plugins")]
    columns = ("type", "class", "version", *(("runtime",) if any("runtime" in plugin for plugin in plugins) else ()))
    rows = [tuple(as_text(plugin.get(key)) for key in columns) for plugin in plugins]
    session.show(plugins, tuple(map(str.upper, columns)), sorted(rows), "The worker has no plugins.")


@plugins.command()
@click.argument("plugin")
@cluster_command
def describe(session: ClusterSession, plugin: str) -> None:
    """Show a plugin's configuration keys. PLUGIN is a class name, or the last part of one."""
    from heeler.cli.cluster.responses import as_list, as_object, as_text
    from heeler.cli.cluster.rest_client import path_of

    keys = [as_object(key, "a key's definition") for key in as_list(
        session.call("GET", path_of("connector-plugins", plugin, "config")), "a plugin's keys")]
    rows = [
        (as_text(key.get("name")), as_text(key.get("type")), "(required)" if key.get("required") is True
         else as_text(key.get("default_value")), as_text(key.get("importance")), as_text(key.get("documentation")))
        for key in keys
    ]
    session.show(keys, ("KEY", "TYPE", "DEFAULT", "IMPORTANCE", "DESCRIPTION"), rows, "The plugin has no keys.")


@cluster_group
def loggers() -> None:
    """Show and change log levels. Changes last until the worker ends.

    A worker with its own admin.listeners serves log levels only there: give one of these addresses as --url.
    """


@loggers.command("list")
@cluster_command
def list_loggers(session: ClusterSession) -> None:
    """List the loggers whose level is set, on the worker that responds."""
    from heeler.cli.cluster.responses import as_object, as_text

    loggers = as_object(session.call("GET", "/admin/loggers"), "the loggers")
    rows = []
    for name, response in sorted(loggers.items()):
        level = as_object(response, "a logger")
        rows.append((name, as_text(level.get("level")), _time(level.get("last_modified"))))
    session.show(loggers, ("LOGGER", "LEVEL", "SINCE"), rows, "No logger has a level.")


@loggers.command("set")
@click.argument("logger")
@click.argument("level", type=click.Choice(list(LEVELS), case_sensitive=False))
@click.option("--cluster", is_flag=True, help="Set it on all workers, not only on the one that responds.")
@cluster_command
def set_logger(session: ClusterSession, logger: str, level: str, cluster: bool) -> None:
    """Set the level of LOGGER and of the loggers below it; root stands for all loggers."""
    from heeler.cli.cluster.responses import as_list
    from heeler.cli.cluster.rest_client import path_of

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
