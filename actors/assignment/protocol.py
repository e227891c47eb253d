"""The group protocol "connect": what members send to the leader and what the leader assigns to them.

This file holds the values; `codec.py` beside it holds their binary layouts.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum, IntEnum
from typing import Any

from storage.ids import ConnectorName, ConnectorTaskId, ItemId


class Protocol(Enum):
    """Group protocols in the order of preference (KIP-415, KIP-507); the value is the name on the wire."""

    SESSIONED = "sessioned"  # cooperative, and requests between workers are signed
    COMPATIBLE = "compatible"  # cooperative
    EAGER = "default"  # every worker stops everything at each rebalance

    @property
    def version(self) -> int:
        """The version number in the encoded bytes of this protocol."""
        return {"sessioned": 2, "compatible": 1, "default": 0}[self.value]

    @property
    def offers(self) -> tuple[Protocol, ...]:
        """What a worker with this `connect.protocol` offers when it joins, the preferred one first."""
        every = tuple(Protocol)
        return every[every.index(self) :]

    @classmethod
    def configured(cls, value: str) -> Protocol:
        """The protocol named by the worker property `connect.protocol`, in any case. ValueError if unknown."""
        names = {"sessioned": cls.SESSIONED, "compatible": cls.COMPATIBLE, "eager": cls.EAGER}
        if value.lower() not in names:
            raise ValueError(f"Invalid connect.protocol {value!r}: must be one of {', '.join(names)}")
        return names[value.lower()]


class AssignmentError(IntEnum):
    """The error field of an assignment."""

    NONE = 0
    CONFIG_MISMATCH = 1  # the leader's config offset is behind a member's


@dataclass(frozen=True, slots=True)
class Allocation:
    """Connectors and tasks that one worker runs; the items are unique and sorted."""

    connectors: tuple[ConnectorName, ...] = ()
    tasks: tuple[ConnectorTaskId, ...] = ()

    @classmethod
    def of(cls, items: Iterable[ItemId]) -> Allocation:
        """The allocation of these items, which may come in any order and repeatedly."""
        unique = dict.fromkeys(items)  # in order, as most of them come: a set would be sorted ten times as slowly
        connectors = sorted(item for item in unique if not isinstance(item, ConnectorTaskId))
        return cls(tuple(connectors), tuple(sorted(item for item in unique if isinstance(item, ConnectorTaskId))))

    @property
    def items(self) -> frozenset[ItemId]:
        """Connectors and tasks in one set (a name never equals a task id)."""
        return frozenset((*self.connectors, *self.tasks))

    def __bool__(self) -> bool:
        return bool(self.connectors or self.tasks)

    def __contains__(self, item: ItemId) -> bool:
        return _among(self.tasks, item) if isinstance(item, ConnectorTaskId) else _among(self.connectors, item)

    def plus(self, other: Allocation) -> Allocation:
        """Both together."""
        if not (self and other):
            return self or other
        return Allocation.of((*self.connectors, *other.connectors, *self.tasks, *other.tasks))

    def minus(self, other: Allocation) -> Allocation:
        """What `other` does not hold."""
        if not (self and other):
            return self
        others = other.items
        return Allocation(
            tuple(name for name in self.connectors if name not in others),
            tuple(task for task in self.tasks if task not in others),
        )


def _among(items: Sequence[Any], item: ItemId) -> bool:
    at = bisect_left(items, item)
    return at < len(items) and items[at] == item


@dataclass(frozen=True, slots=True)
class MemberMetadata:
    """What a member sends when it joins: its REST address, its config offset, and (unless eager) what it runs."""

    url: str
    config_offset: int
    owned: Allocation | None = None


@dataclass(frozen=True, slots=True)
class Assignment:
    """What the leader assigns to one member.

    Eager: `assigned` is everything that the member has to run. Cooperative: `assigned` is what it has to start and
    `revoked` what it has to stop; the member joins again after a revocation, and after `delay_ms`.
    """

    leader: str
    leader_url: str
    config_offset: int
    assigned: Allocation = Allocation()
    revoked: Allocation = Allocation()
    delay_ms: int = 0
    error: AssignmentError = AssignmentError.NONE

    @property
    def failed(self) -> bool:
        """Whether the rebalance has to be repeated because the leader had not read all configs."""
        return self.error is not AssignmentError.NONE


Workers = tuple[tuple[str, str], ...]
"""The member id and the REST address of each worker of a group."""


@dataclass(frozen=True, slots=True)
class Membership:
    """The outcome of one rebalance for one member.

    `owners` (leader only) pairs each connector name and task id that runs with the REST address of its worker; it is
    used to forward restart requests. `left_out` (leader only): what can be assigned to no member, and why. `room`: by
    how many bytes the group's record may still grow, up to `record_bytes` (record_size.py). `workers` (leader only):
    the members, for the log.
    """

    generation: int
    member_id: str
    protocol: Protocol
    assignment: Assignment
    owners: tuple[tuple[ItemId, str], ...] = ()
    left_out: tuple[tuple[ItemId, str], ...] = ()
    room: int | None = None
    record_bytes: int = 0
    workers: Workers = ()

    @property
    def is_leader(self) -> bool:
        """Whether this member leads the group."""
        return self.member_id == self.assignment.leader
