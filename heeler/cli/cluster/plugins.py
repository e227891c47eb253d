"""`heeler plugins`: a worker's plugins."""

from __future__ import annotations

import click

from heeler.cli.client.session import ClusterSession, cluster_command, cluster_group


@cluster_group
def plugins() -> None:
    """Show and install plugins."""


@plugins.command("list")
@click.option("--all", "every", is_flag=True, help="Include converters, transforms and predicates.")
@cluster_command
def list_plugins(session: ClusterSession, every: bool) -> None:
    """List the connector plugins of the worker that responds."""
    from heeler.cli.client.responses import as_list, as_object, as_text

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
    from heeler.cli.client.responses import as_list, as_object, as_text
    from heeler.cli.client.rest_client import path_of

    keys = [as_object(key, "a key's definition") for key in as_list(
        session.call("GET", path_of("connector-plugins", plugin, "config")), "a plugin's keys")]
    rows = [
        (as_text(key.get("name")), as_text(key.get("type")), "(required)" if key.get("required") is True
         else as_text(key.get("default_value")), as_text(key.get("importance")), as_text(key.get("documentation")))
        for key in keys
    ]
    session.show(keys, ("KEY", "TYPE", "DEFAULT", "IMPORTANCE", "DESCRIPTION"), rows, "The plugin has no keys.")
