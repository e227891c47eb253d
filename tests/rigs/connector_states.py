"""The states of a connector in a worker's REST API."""

from __future__ import annotations

from heeler.cli.client.rest_client import ConnectClient, RestError, path_of


def states_of(rest: ConnectClient, name: str) -> list[str]:
    """The state of the connector, then of each task; empty if there is no status yet."""
    try:
        status = rest.call("GET", path_of("connectors", name, "status"))
    except RestError as error:
        if error.status == 404:
            return []
        raise
    return [status["connector"]["state"], *(t["state"] for t in status["tasks"])]
