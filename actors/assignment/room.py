"""What fits: into a string of the group protocol, and into the one record in which Kafka keeps a group.

Brokers keep what all members of a group have said and were given in one record of the topic __consumer_offsets, and
refuse the whole round (with an error that names no reason) where it is larger than that topic's max.message.bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from storage.config.state import ClusterConfigState
from storage.ids import ConnectorName, ConnectorTaskId, ItemId

DEFAULT_RECORD_BYTES = 1_048_588  # Kafka's default max.message.bytes
LONGEST_NAME = 32_767  # bytes: the largest int16
_RECORD, _MEMBER = 512, 320  # bytes beside: of batch and group, and of each member (its ids and its host)
_ENTRY, _TASK = 6, 4  # of a connector beside its name, and of each of its items


def too_long(config: ClusterConfigState) -> dict[ItemId, str]:
    """Why connectors and tasks cannot be assigned to any worker, however few there are."""
    found: dict[ItemId, str] = {}
    for name in config.connectors():
        size = len(name.encode())
        if size > LONGEST_NAME:
            why = (f"The connector cannot run: its name has {size} bytes, and at most {LONGEST_NAME} can be told to "
                   "a worker. Delete it, and create it with a shorter name")
            found.update(dict.fromkeys([name, *config.tasks(name)], why))
    return found


def no_room(used: int, limit: int) -> str:
    """Why something cannot be assigned to any worker in addition to everything else."""
    return (f"There is no room for it in the worker group: what the group's workers run takes {used} bytes, and Kafka "
            f"keeps it in one record, of at most {limit} bytes. Allow larger ones (max.message.bytes of the topic "
            "__consumer_offsets, message.max.bytes of the brokers), delete connectors, use shorter names or fewer "
            "tasks, or have another group of workers run some")


def used_bytes(metadata: Mapping[str, bytes], assignments: Mapping[str, bytes]) -> int:
    """How large the group's record will be, at most."""
    sizes = (len(metadata[id_]) + len(given) + len(id_) + _MEMBER for id_, given in assignments.items())
    return _RECORD + sum(sizes)


def needed_bytes(connector: ConnectorName, items: int, workers: int) -> int:
    """How much more room so many items of a connector take, at most, in a group of so many workers."""
    return min(items, workers) * (_ENTRY + len(connector.encode())) + items * _TASK


def heaviest(items: Iterable[ItemId], excess: int) -> frozenset[ItemId]:
    """Some of the items without which at least `excess` bytes are saved, if they are so many: whole connectors, those
    with the longest names first.
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
