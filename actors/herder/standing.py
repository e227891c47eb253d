"""A worker's standing in its group, and what the group waits for: variants that cannot express impossible combinations.

Each phase holds what is known in it. A worker outside the group has no membership, another rebalance can be owed only
right after a rebalance, and only a leader has a claim to write the config topic.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import ClassVar, Literal

from actors.assignment.protocol import Membership
from actors.messages.correlation_ids import OpId
from storage.ids import ItemId

NO_GENERATION = -1  # the generation of a worker outside the group


class Phase(Enum):
    """The worker's standing in its group, by name."""

    LOADING = "loading"  # the config topic has not been read yet
    OUT = "out"  # not a member: waits before it reads the config topic again and joins
    JOINING = "joining"  # a rebalance has been requested or is in progress
    REVOKING = "revoking"  # a rebalance is over; what it revoked is being stopped
    SYNCING = "syncing"  # reading the config topic up to the assignment's offset
    RESOLVED = "resolved"  # the assigned work has been started; requests are served
    HALTING = "halting"  # shutting down: everything is being stopped
    HALTED = "halted"


# ---------------------------------------------------------------- what the membership is
@dataclass(frozen=True, slots=True)
class Follower:
    """A member; another worker leads."""

    membership: Membership


@dataclass(frozen=True, slots=True)
class Leader:
    """The member that leads. `claim`: the number of its claim to write the config topic; None until it holds one."""

    membership: Membership
    claim: int | None = None


class Absence(Enum):
    """Why there is no membership."""

    OUTSIDE = "outside"  # not joined, left, or lost
    SUSPENDED = "suspended"  # lost while the process was suspended: a rebalance that ends now may have begun before


Member = Follower | Leader


def member_of(membership: Membership, claim: int | None = None) -> Member:
    """A leader or a follower, according to the membership; `claim` is kept if the worker was leader before."""
    return Leader(membership, claim) if membership.is_leader else Follower(membership)


# ---------------------------------------------------------------- the standing in the group
class Gate(Enum):
    """The gate before each join (ADR 0002)."""

    OPEN = "open"  # the member has its answer, or has not asked yet
    WAITING = "waiting"  # the member waits for AllowJoin


class NextRebalance(Enum):
    """Whether the rebalance that has just ended leads to another one."""

    UNNEEDED = "unneeded"
    OWED = "owed"  # work was released: the next rebalance assigns it


@dataclass(frozen=True, slots=True)
class Loading:
    """The config topic has not been read yet."""

    phase: ClassVar[Literal[Phase.LOADING]] = Phase.LOADING
    member: ClassVar[Absence] = Absence.OUTSIDE


@dataclass(frozen=True, slots=True)
class Out:
    """Not a member; the worker joins again once the config topic can be read."""

    phase: ClassVar[Literal[Phase.OUT]] = Phase.OUT
    member: ClassVar[Absence] = Absence.OUTSIDE


@dataclass(frozen=True, slots=True)
class Joining:
    """A rebalance has been requested or is in progress. `member`: the current membership, if any."""

    phase: ClassVar[Literal[Phase.JOINING]] = Phase.JOINING
    member: Member | Absence = Absence.OUTSIDE
    gate: Gate = Gate.OPEN


@dataclass(frozen=True, slots=True)
class Revoking:
    """A rebalance is over; what it revoked is being stopped."""

    phase: ClassVar[Literal[Phase.REVOKING]] = Phase.REVOKING
    member: Member
    next_rebalance: NextRebalance = NextRebalance.UNNEEDED


@dataclass(frozen=True, slots=True)
class Syncing:
    """A rebalance is over; the config topic is being read up to the assignment's offset."""

    phase: ClassVar[Literal[Phase.SYNCING]] = Phase.SYNCING
    member: Member
    next_rebalance: NextRebalance = NextRebalance.UNNEEDED


@dataclass(frozen=True, slots=True)
class Resolved:
    """The assigned work has been started."""

    phase: ClassVar[Literal[Phase.RESOLVED]] = Phase.RESOLVED
    member: Member


@dataclass(frozen=True, slots=True)
class Halting:
    """Everything is being stopped; the worker stays a member until that is done."""

    phase: ClassVar[Literal[Phase.HALTING]] = Phase.HALTING
    member: Member | Absence = Absence.OUTSIDE


@dataclass(frozen=True, slots=True)
class Halted:
    """The worker has stopped everything and left the group."""

    phase: ClassVar[Literal[Phase.HALTED]] = Phase.HALTED
    member: ClassVar[Absence] = Absence.OUTSIDE


Standing = Loading | Out | Joining | Revoking | Syncing | Resolved | Halting | Halted


# ---------------------------------------------------------------- what the group waits for
@dataclass(frozen=True, slots=True)
class NothingReleased:
    """The group waits for nothing on this worker."""

    items: ClassVar[frozenset[ItemId]] = frozenset()


@dataclass(frozen=True, slots=True)
class StoppingItems:
    """The group waits until these have stopped."""

    items: frozenset[ItemId]


@dataclass(frozen=True, slots=True)
class FlushingStatuses:
    """The group waits until the statuses of what has stopped are written (`op`), and until `items`, which were released
    meanwhile, have stopped.
    """

    op: OpId
    items: frozenset[ItemId] = field(default=frozenset())


Release = NothingReleased | StoppingItems | FlushingStatuses


def with_items(release: Release, items: frozenset[ItemId]) -> Release:
    """The same release, with exactly these items still being stopped."""
    if isinstance(release, FlushingStatuses):
        return FlushingStatuses(release.op, items)
    return StoppingItems(items) if items else NothingReleased()


class StatusWrites(Enum):
    """Which statuses this worker writes to the status topic."""

    CURRENT = "current"  # each status when it changes
    REPEAT_DUE = "repeat due"  # others may have written statuses of work that still ran here: write all at the start
    SUSPENDED = "suspended"  # the process was suspended and its statuses are old: none, until the topic is read
