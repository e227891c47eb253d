"""`heeler validate`: lets a worker check configurations, without creating anything."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from heeler.cli.client.session import FILES, NO, ClusterSession, cluster_command

if TYPE_CHECKING:
    from heeler.cli.configs.config_files import Wanted

Finding = tuple[str, str, tuple[str, ...]]
"""A key, its value with secrets hidden, and its error messages."""
_UNKNOWN: Final = "Failed to find any class that implements Connector"
"""The message, with status 500, of Java's and heeler's workers if they do not have a plugin."""


@click.command()
@click.argument("paths", nargs=-1, required=True, type=FILES, metavar="FILE...")
@click.option("--all", "every", is_flag=True, help="Show valid keys too.")
@cluster_command
def validate(session: ClusterSession, paths: tuple[Path, ...], every: bool) -> int:
    """Let a worker check the connectors in FILEs (JSON, YAML, properties). Exits with 1 if there are errors."""
    from heeler.cli.configs.config_files import read_connectors

    rows, data, errors = [], [], 0
    for wanted in read_connectors(paths):
        checks = checked(session, wanted)
        errors += sum(len(messages) for _, _, messages in checks)
        data.append({"name": wanted.name, "file": wanted.file,
                     "errors": {key: list(messages) for key, _, messages in checks if messages}})
        rows += [(wanted.name, key, value, "; ".join(" ".join(message.split()) for message in messages))
                 for key, value, messages in checks if messages or every]
    session.show(data, ("CONNECTOR", "KEY", "VALUE", "ERROR"), rows, "Everything is valid.")
    return NO if errors else 0


def checked(session: ClusterSession, wanted: Wanted) -> list[Finding]:
    """The worker's findings about each key; if it does not have the plugin, only one about connector.class."""
    from heeler.cli.client.responses import as_list, as_object, as_text
    from heeler.cli.client.rest_client import RestError, path_of
    from heeler.cli.configs.masks import mask_of

    plugin = wanted.config["connector.class"]
    try:
        response = session.call("PUT", path_of("connector-plugins", plugin, "config", "validate"), dict(wanted.config))
    except RestError as error:
        _, unknown, plugins = error.message.partition(_UNKNOWN)
        if not unknown:
            raise
        return [("connector.class", plugin, (f"{unknown}{plugins}",))]
    result = as_object(response, "a validation")
    infos = [as_object(info, "a key's validation") for info in as_list(result.get("configs"), "a validation's keys")]
    secret = {
        str(value.get("name")) for info in infos if isinstance(value := info.get("definition"), dict)
        and value.get("type") == "PASSWORD"
    }
    mask = mask_of(wanted.config, secret_keys=secret)
    checks = []
    for info in infos:
        value = as_object(info.get("value"), "a key's value")
        key = as_text(value.get("name"))
        messages = tuple(mask("", as_text(m)) for m in as_list(value.get("errors") or [], "a key's errors"))
        checks.append((key, mask(key, as_text(value.get("value"))), messages))
    return sorted(checks)
