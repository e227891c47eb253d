"""Limits for connector names and numbers of tasks, set by URLs and the group's protocol.

A record in the config topic could hold longer names and more tasks.
"""

from __future__ import annotations

from urllib.parse import quote

from actors.assignment.record_size import needed_bytes, no_room
from actors.errors import BadRequestError
from actors.herder.state import HerderState
from spark_tasks.limits import MAX_TASKS
from storage.ids import ConnectorName
from storage.log.record import shown

MAX_NAME_IN_URL = 8000  # many servers, proxies and clients, Kafka Connect's included, limit URLs to 8 KB


def name_refusal(connector: ConnectorName) -> Exception | None:
    """The error for a connector name that is too long for a URL; None if it is not."""
    size = len(quote(connector, safe=""))
    if size <= MAX_NAME_IN_URL:
        return None
    return BadRequestError(
        "Connector configuration is invalid and contains the following 1 error(s):\n"
        f"Invalid value {shown(connector)} for configuration name: The name is {size} bytes long in a URL; the "
        f"limit is {MAX_NAME_IN_URL}, so that the REST API can address it")


def room_refusal(state: HerderState, connector: ConnectorName, items: int) -> Exception | None:
    """The error if the group has no room for this many more items of a connector; None if it has, or on a follower."""
    tasks = state.config.task_count(connector) + items
    if tasks > MAX_TASKS:
        return BadRequestError(f"Connector {shown(connector)} has {tasks} tasks; the limit is {MAX_TASKS}")
    membership = state.membership
    if items <= 0 or membership is None or membership.room is None:
        return None
    workers = max(len({url for _, url in membership.owners}), 1)
    needed = needed_bytes(connector, items, workers)
    # A rebalance that revokes a connector contains its name once more. If that did not fit, nothing could be deleted.
    sizes = (needed_bytes(name, 1 + state.config.task_count(name), workers) for name in state.config.connectors())
    reserved = max(needed, *sizes, 0)
    room = max(membership.room - reserved, 0)
    if needed <= room:
        return None
    return BadRequestError(f"Connector {shown(connector)} needs {needed} more bytes, but only {room} are free. "
                           + no_room(membership.record_bytes - room, membership.record_bytes))
