"""Where a worker stands in its group, and what the group waits for: variants, so that only what can be can be written.

Each phase holds what is known in it. A worker that is out of its group has no membership to forget, only one whose
group has just settled can owe the next round, and only a leader has a claim to write the config topic.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import ClassVar, Literal

from actors.assignment.protocol import Membership
from actors.messages.ids import OpId
from storage.ids import ItemId

NO_GENERATION = -1  # of who is not in the group


class Phase(Enum):
    """Where the worker stands in its group."""

    LOADING = "loading"  # the config topic has not been read yet
    OUT = "out"  # not a member: waits before it reads the config topic again and joins
    JOINING = "joining"  # a round is wanted or going on
    REVOKING = "revoking"  # a round is over; what it took away is being stopped
    SYNCING = "syncing"  # reading the config topic up to the assignment's offset
    RESOLVED = "resolved"  # the assigned work is started; requests are served
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
    SUSPENDED = "suspended"  # lost while the process slept: a round that ends now may be one of before


Member = Follower | Leader


def member_of(membership: Membership, claim: int | None = None) -> Member:
    """A leader or a follower, as the membership says; `claim` is what the former leader goes on with."""
    return Leader(membership, claim) if membership.is_leader else Follower(membership)


# ---------------------------------------------------------------- where it stands
class Gate(Enum):
    """The gate before each join (ADR 0002)."""

    OPEN = "open"  # the member has its answer, or has not asked yet
    WAITING = "waiting"  # the member waits for AllowJoin


class NextRound(Enum):
    """Whether the round that has just ended leads to another one."""

    UNNEEDED = "unneeded"
    OWED = "owed"  # work was given up: the next round hands it out


@dataclass(frozen=True, slots=True)
class Loading:
    """The config topic has not been read yet."""

    phase: ClassVar[Literal[Phase.LOADING]] = Phase.LOADING
    member: ClassVar[Absence] = Absence.OUTSIDE


@dataclass(frozen=True, slots=True)
class Out:
    """Not a member; joins again once the config topic can be read."""

    phase: ClassVar[Literal[Phase.OUT]] = Phase.OUT
    member: ClassVar[Absence] = Absence.OUTSIDE


@dataclass(frozen=True, slots=True)
class Joining:
    """A round is wanted or going on. `member`: the membership until then, if there is one."""

    phase: ClassVar[Literal[Phase.JOINING]] = Phase.JOINING
    member: Member | Absence = Absence.OUTSIDE
    gate: Gate = Gate.OPEN


@dataclass(frozen=True, slots=True)
class Revoking:
    """A round is over; what it took away is being stopped."""

    phase: ClassVar[Literal[Phase.REVOKING]] = Phase.REVOKING
    member: Member
    next_round: NextRound = NextRound.UNNEEDED


@dataclass(frozen=True, slots=True)
class Syncing:
    """A round is over; the config topic is being read up to the assignment's offset."""

    phase: ClassVar[Literal[Phase.SYNCING]] = Phase.SYNCING
    member: Member
    next_round: NextRound = NextRound.UNNEEDED


@dataclass(frozen=True, slots=True)
class Resolved:
    """The assigned work is started."""

    phase: ClassVar[Literal[Phase.RESOLVED]] = Phase.RESOLVED
    member: Member


@dataclass(frozen=True, slots=True)
class Halting:
    """Everything is being stopped; a member until that is done."""

    phase: ClassVar[Literal[Phase.HALTING]] = Phase.HALTING
    member: Member | Absence = Absence.OUTSIDE


@dataclass(frozen=True, slots=True)
class Halted:
    """The end."""

    phase: ClassVar[Literal[Phase.HALTED]] = Phase.HALTED
    member: ClassVar[Absence] = Absence.OUTSIDE


Standing = Loading | Out | Joining | Revoking | Syncing | Resolved | Halting | Halted


# ---------------------------------------------------------------- what the group waits for
@dataclass(frozen=True, slots=True)
class NothingReleased:
    """The group waits for nothing of ours."""

    items: ClassVar[frozenset[ItemId]] = frozenset()


@dataclass(frozen=True, slots=True)
class StoppingItems:
    """The group waits until these have stopped."""

    items: frozenset[ItemId]


@dataclass(frozen=True, slots=True)
class FlushingStatuses:
    """The group waits until the statuses of what has stopped are written (`op`), and until `items` have stopped, which
    were released meanwhile.
    """

    op: OpId
    items: frozenset[ItemId] = field(default=frozenset())


Release = NothingReleased | StoppingItems | FlushingStatuses


def with_items(release: Release, items: frozenset[ItemId]) -> Release:
    """The same release where these, and no others, are still being stopped."""
    if isinstance(release, FlushingStatuses):
        return FlushingStatuses(release.op, items)
    return StoppingItems(items) if items else NothingReleased()


class StatusWrites(Enum):
    """What this worker writes to the status topic."""

    CURRENT = "current"  # what happens, when it happens
    REPEAT_DUE = "repeat due"  # others may have written of work that ran on here: all is written again with the start
    SUSPENDED = "suspended"  # this process slept and knows old statuses only: nothing, until they are read
