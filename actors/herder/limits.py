"""Names and numbers of tasks that are refused, because the group's protocol or URLs could not carry them.

A record in the config topic holds longer names and more tasks than what comes after it.
"""

from __future__ import annotations

from urllib.parse import quote

from actors.assignment.room import needed_bytes, no_room
from actors.errors import BadRequestError
from actors.herder.state import HerderState
from spark_tasks.limits import MAX_TASKS
from storage.ids import ConnectorName
from storage.log.record import shown

MAX_NAME_IN_URL = 8000  # many servers, proxies and clients, Kafka Connect's own included, end at 8 KB of a URL


def name_refusal(connector: ConnectorName) -> Exception | None:
    """Why a connector cannot have this name."""
    size = len(quote(connector, safe=""))
    if size <= MAX_NAME_IN_URL:
        return None
    return BadRequestError(
        "Connector configuration is invalid and contains the following 1 error(s):\n"
        f"Invalid value {shown(connector)} for configuration name: The name takes {size} bytes in a URL and may take "
        f"at most {MAX_NAME_IN_URL}, or nobody could ask for the connector")


def room_refusal(state: HerderState, connector: ConnectorName, items: int) -> Exception | None:
    """Why the group cannot take so many items more of a connector. Only the leader knows."""
    if items > MAX_TASKS:
        return BadRequestError(f"Connector {shown(connector)} has {items} tasks; at most {MAX_TASKS} are possible")
    membership = state.membership
    if items <= 0 or membership is None or membership.room is None:
        return None
    workers = max(len({url for _, url in membership.owners}), 1)
    needed = needed_bytes(connector, items, workers)
    # A round that takes a connector away says its name once more: it must still fit, or nothing can be deleted again.
    sizes = (needed_bytes(name, 1 + state.config.task_count(name), workers) for name in state.config.connectors())
    reserved = max(needed, *sizes, 0)
    room = max(membership.room - reserved, 0)
    if needed <= room:
        return None
    return BadRequestError(f"{shown(connector)} needs {needed} bytes more, and there is room for {room}. "
                           + no_room(membership.record_bytes - room, membership.record_bytes))
