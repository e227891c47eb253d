"""`heeler plugins` and `heeler loggers`: a worker's plugins and its log levels."""
# ruff: noqa: PLC0415  (imports inside: the command line starts fast)

from __future__ import annotations

import datetime as dt

import click

from heeler.cli.cluster.session import ClusterSession, cluster_command
from heeler.cli.safe_text import safe

LEVELS = ("OFF", "FATAL", "ERROR", "WARN", "INFO", "DEBUG", "TRACE", "ALL")


@click.group()
def plugins() -> None:
    """The plugins of a worker."""


@plugins.command("list")
@click.option("--all", "every", is_flag=True, help="Include converters, transforms and predicates.")
@cluster_command
def list_plugins(session: ClusterSession, every: bool) -> None:
    """The connectors that can be created on the worker that answers."""
    from heeler.cli.cluster.answers import a_list, a_text, an_object

    found = [an_object(plugin, "a plugin") for plugin in a_list(
        session.call("GET", "/connector-plugins", query={"connectorsOnly": str(not every).lower()}), "the plugins")]
    columns = ("type", "class", "version", *(("runtime",) if any("runtime" in plugin for plugin in found) else ()))
    rows = [tuple(a_text(plugin.get(key)) for key in columns) for plugin in found]
    session.show(found, tuple(map(str.upper, columns)), sorted(rows), "It has none.")


@plugins.command()
@click.argument("plugin")
@cluster_command
def describe(session: ClusterSession, plugin: str) -> None:
    """Show a plugin's configuration keys. PLUGIN is a class name, or the last part of one."""
    from heeler.cli.cluster.answers import a_list, a_text, an_object
    from heeler.cli.rest_client import path_of

    found = [an_object(key, "a key's definition") for key in a_list(
        session.call("GET", path_of("connector-plugins", plugin, "config")), "a plugin's keys")]
    rows = [
        (a_text(key.get("name")), a_text(key.get("type")), "(required)" if key.get("required") is True
         else a_text(key.get("default_value")), a_text(key.get("importance")), a_text(key.get("documentation")))
        for key in found
    ]
    session.show(found, ("KEY", "TYPE", "DEFAULT", "IMPORTANCE", "DESCRIPTION"), rows, "It has no keys.")


@click.group()
def loggers() -> None:
    """See and change log levels. They last until a worker ends.

    A worker with admin.listeners of its own is asked there: give their --url.
    """


@loggers.command("list")
@cluster_command
def list_loggers(session: ClusterSession) -> None:
    """List the loggers with their own level, on the worker that answers."""
    from heeler.cli.cluster.answers import a_text, an_object

    found = an_object(session.call_admin("GET", "/admin/loggers"), "the loggers")
    rows = []
    for name, response in sorted(found.items()):
        level = an_object(response, "a logger")
        rows.append((name, a_text(level.get("level")), _time(level.get("last_modified"))))
    session.show(found, ("LOGGER", "LEVEL", "SINCE"), rows, "None has.")


@loggers.command("set")
@click.argument("logger")
@click.argument("level", type=click.Choice(LEVELS, case_sensitive=False))
@click.option("--cluster", is_flag=True, help="Set it on all workers, not only on the one that answers.")
@cluster_command
def set_logger(session: ClusterSession, logger: str, level: str, cluster: bool) -> None:
    """Set the level of LOGGER and of those below it; root is all of them."""
    from heeler.cli.cluster.answers import a_list
    from heeler.cli.rest_client import path_of

    scope = {"scope": "cluster"} if cluster else {"scope": "worker"}
    response = session.call_admin("PUT", path_of("admin", "loggers", logger), {"level": level.upper()}, scope)
    changed = [logger] if response is None else a_list(response, "the changed loggers")
    session.show(changed, ("CHANGED",), [(name,) for name in changed], f"No logger is called {safe(logger)}.")


def _time(milliseconds: object) -> str:
    """The time in UTC, empty if it is not known."""
    if not isinstance(milliseconds, int):
        return ""
    try:
        return dt.datetime.fromtimestamp(milliseconds / 1000, dt.UTC).isoformat(timespec="seconds")
    except (ValueError, OverflowError, OSError):
        return str(milliseconds)
