"""`heeler connectors delete`."""

from __future__ import annotations

import click

from heeler.cli.client.session import (
    YES,
    ChangeMade,
    ClusterSession,
    cluster_command,
    confirm,
    connector_argument,
    each,
)
from heeler.cli.console.safe_text import safe


@click.command()
@connector_argument(several=True)
@YES
@cluster_command
def delete(session: ClusterSession, connectors: tuple[str, ...], yes: bool) -> int:
    """Delete connectors. Their topics and offsets remain."""
    from heeler.cli.client.rest_client import path_of

    confirm(f"Delete {', '.join(map(safe, connectors))}?", yes=yes)

    def act(name: str) -> ChangeMade:
        return ChangeMade("deleted", session.call("DELETE", path_of("connectors", name)))

    return each(session, dict.fromkeys(connectors, "delete"), act)
