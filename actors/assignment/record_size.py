"""Size limits: of a string in the group protocol, and of the single record in which Kafka keeps a group.

Brokers keep the metadata and the assignments of all members of a group in one record of the topic __consumer_offsets.
If it would exceed that topic's max.message.bytes, they reject the whole rebalance with an error that gives no reason.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from storage.config.state import ClusterConfigState
from storage.ids import ConnectorName, ConnectorTaskId, ItemId

DEFAULT_RECORD_BYTES = 1_048_588  # Kafka's default max.message.bytes
LONGEST_NAME = 32_767  # bytes: the largest int16
_RECORD, _MEMBER = 512, 320  # bytes of overhead: of the batch and group, and of each member (its ids and its host)
_ENTRY, _TASK = 6, 4  # bytes: of a connector in addition to its name, and of each of its items


def too_long(config: ClusterConfigState) -> dict[ItemId, str]:
    """Connectors and tasks that can never be assigned to a worker because of their names, with the reason."""
    reason_by_item: dict[ItemId, str] = {}
    for name in config.connectors():
        size = len(name.encode())
        if size > LONGEST_NAME:
            why = (f"The connector cannot run: its name is {size} bytes long; the limit is {LONGEST_NAME}. Delete "
                   "it, and create it with a shorter name")
            reason_by_item.update(dict.fromkeys([name, *config.tasks(name)], why))
    return reason_by_item


MORE_ROOM: Final = (
    "Allow larger records (max.message.bytes of the topic __consumer_offsets, message.max.bytes of the brokers), "
    "delete connectors, use shorter names or fewer tasks, or run some connectors in another worker group")


def no_room(used: int, limit: int) -> str:
    """The error for an item that cannot be assigned in addition to everything else."""
    return (f"There is no room for it in the worker group: the group's assignments take {used} bytes, and Kafka "
            f"keeps them in one record of at most {limit} bytes. {MORE_ROOM}")


def used_bytes(metadata: Mapping[str, bytes], assignments: Mapping[str, bytes]) -> int:
    """The largest size, in bytes, that the group's record can have."""
    sizes = (len(metadata[id_]) + len(given) + len(id_) + _MEMBER for id_, given in assignments.items())
    return _RECORD + sum(sizes)


def needed_bytes(connector: ConnectorName, items: int, workers: int) -> int:
    """By how many bytes, at most, the record grows for this many items of a connector and this many workers."""
    return min(items, workers) * (_ENTRY + len(connector.encode())) + items * _TASK


def heaviest(items: Iterable[ItemId], excess: int) -> frozenset[ItemId]:
    """Items to leave out so that at least `excess` bytes are saved, if possible: whole connectors, those with the
    longest names first.
    """
    by_connector: dict[ConnectorName, list[ItemId]] = {}
    for item in items:
        name = item.connector if isinstance(item, ConnectorTaskId) else item
        by_connector.setdefault(name, []).append(item)
    chosen: set[ItemId] = set()
    for name in sorted(by_connector, key=lambda name: (len(name.encode()), name), reverse=True):
        if excess <= 0:
            break
        chosen.update(by_connector[name])
        excess -= needed_bytes(name, len(by_connector[name]), 1)
    return frozenset(chosen)


def fitting(items: Iterable[ItemId], excess: int) -> frozenset[ItemId]:
    """What remains of these items if as many are left out as save at least `excess` bytes, if possible; at least one of
    them remains.
    """
    by_connector: dict[ConnectorName, list[ItemId]] = {}
    for item in sorted(items, key=str):
        by_connector.setdefault(item.connector if isinstance(item, ConnectorTaskId) else item, []).append(item)
    kept: list[ItemId] = []
    for at, (name, some) in enumerate(by_connector.items()):
        whole = needed_bytes(name, len(some), 1)
        left_out = len(some) if whole <= excess else min(-(-max(excess, 0) // _TASK), len(some))
        if at == len(by_connector) - 1 and not kept:
            left_out = min(left_out, len(some) - 1)
        kept += some[left_out:]
        excess -= whole if left_out == len(some) else left_out * _TASK
    return frozenset(kept)
