"""`heeler connectors create`: creates the connectors of files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from heeler.cli.client.session import FILES, ChangeMade, ClusterSession, cluster_command, each

if TYPE_CHECKING:
    from heeler.cli.configs.config_files import Wanted
    from heeler.cli.configs.masks import Mask


@click.command()
@click.argument("paths", nargs=-1, required=True, type=FILES, metavar="FILE...")
@click.option("--state", type=click.Choice(["running", "paused", "stopped"]), help="Create them in this state.")
@cluster_command
def create(session: ClusterSession, paths: tuple[Path, ...], state: str | None) -> int:
    """Create the connectors of files (JSON, YAML, properties). A connector that already exists is an error."""
    from dataclasses import replace

    from heeler.cli.client.secret_keys import SecretKeys
    from heeler.cli.configs.config_files import read_connectors
    from heeler.cli.console.output import Format

    secret = SecretKeys(session)
    wanted = {w.name: replace(w, initial_state=state.upper()) if state else w for w in read_connectors(paths)}

    def act(name: str) -> ChangeMade:
        if session.format is Format.TABLE:
            post(session, wanted[name])
            return ChangeMade("created")
        mask = secret.mask(wanted[name].config)  # before: without it, the response could not be shown
        return ChangeMade("created", _without_secrets(post(session, wanted[name]), mask))

    return each(session, dict.fromkeys(wanted, "create"), act)


def post(session: ClusterSession, wanted: Wanted) -> Any:
    """Creates a connector. Returns the response, which contains its secrets."""
    state = {"initial_state": wanted.initial_state} if wanted.initial_state else {}
    return session.call("POST", "/connectors", {"name": wanted.name, "config": dict(wanted.config), **state})


def _without_secrets(response: Any, mask: Mask) -> dict[str, Any]:
    """The response to POST /connectors."""
    from heeler.cli.client.responses import as_config, as_object

    created = as_object(response, "a connector")
    config = as_config(created.get("config"), "a connector's config")
    return {**created, "config": {key: mask(key, value) for key, value in config.items()}}
