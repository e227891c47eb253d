"""The leader's part in a round: reads the members' metadata, has an assignor decide, writes the assignments."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from actors.assignment import cooperative, eager
from actors.assignment.codec import CodecError, decode_metadata, encode_assignment
from actors.assignment.cooperative import AssignorState
from actors.assignment.protocol import Assignment, MemberMetadata, Protocol
from actors.assignment.room import DEFAULT_RECORD_BYTES, heaviest, no_room, too_long, used_bytes
from storage.config.state import ClusterConfigState
from storage.ids import ItemId
from storage.log.record import shown

_log = logging.getLogger(__name__)

Owners = tuple[tuple[ItemId, str], ...]
Reasons = tuple[tuple[ItemId, str], ...]


@dataclass(frozen=True, slots=True)
class RoundPlan:
    """The outcome of a leader's round: bytes for each member, and who then runs what at which REST address.

    `left_out`: what nobody was given, and why. `room`: how many bytes more the group's record may have, of
    `record_bytes`. `ahead`: members that have read more of the config topic than the leader, as they say. `unread`:
    members whose metadata cannot be read.
    """

    state: AssignorState
    generation: int
    assignments: Mapping[str, bytes]
    owners: Owners
    left_out: Reasons = ()
    room: int = 0
    record_bytes: int = DEFAULT_RECORD_BYTES
    ahead: frozenset[str] = frozenset()
    unread: frozenset[str] = frozenset()


def plan(
    state: AssignorState,
    protocol: Protocol,
    metadata: Mapping[str, bytes],
    config: ClusterConfigState,
    *,
    leader: str,
    generation: int,
    last_completed: int,
    now_ms: int,
    max_delay_ms: int,
    doubted: frozenset[str] = frozenset(),
    record_bytes: int = DEFAULT_RECORD_BYTES,
) -> RoundPlan:
    """A whole round over bytes. Pure but for the log; `metadata` is keyed by member id and holds the leader's own.

    A member whose metadata cannot be read gets nothing and loses nothing; the others share the work. So it is with one
    that is `doubted`: it was ahead of the leader, and what the leader lacked was not in the config topic either.

    The eager protocol leaves the cooperative assignor's state as it is: the generations it misses make it void by
    themselves.
    """
    members = _decode(metadata)
    ahead = frozenset(id_ for id_, member in members.items() if member.config_offset > config.offset)
    idle = ahead & doubted
    for id_ in sorted(idle):
        _log.error("Group member %s gets no work: it says that it has read the config topic up to offset %d, and the "
                   "topic ends at %d", shown(id_), members[id_].config_offset, config.offset)

    def decide(left_out: Collection[ItemId], most_moved: int | None) -> tuple[AssignorState, dict[str, Assignment]]:
        if protocol is Protocol.EAGER:
            return state, eager.assign(members, config, leader=leader, idle=idle, left_out=left_out)
        return cooperative.assign(
            state, members, config, leader=leader, generation=generation, last_completed=last_completed, now_ms=now_ms,
            max_delay_ms=max_delay_ms, idle=idle, left_out=left_out, most_moved=most_moved,
        )

    def encode(assignments: Mapping[str, Assignment]) -> dict[str, bytes]:
        nothing = Assignment(leader, members[leader].url, assignments[leader].config_offset)
        return {id_: encode_assignment(assignments.get(id_, nothing), protocol) for id_ in metadata}

    left_out, most_moved = too_long(config), None
    while True:
        decided, assignments = decide(left_out, most_moved)
        encoded = encode(assignments)
        room = record_bytes - used_bytes(metadata, encoded)
        given = [item for one in assignments.values() for item in one.assigned.items]
        moved = sum(len(one.revoked.items) for one in assignments.values()) if most_moved is None else most_moved
        if room >= 0 or not (given or moved):
            break
        if moved:  # less at once: the rounds that follow go on with it
            most_moved = moved // 2
        else:
            left_out |= dict.fromkeys(heaviest(given, -room), no_room(record_bytes - room, record_bytes))
    if most_moved is not None:
        _log.warning("Work is moved to other workers in several steps: all at once would not fit into the one record, "
                     "of %d bytes, in which Kafka keeps a group", record_bytes)
    return RoundPlan(
        decided, generation, encoded, _owners(members, assignments), tuple(left_out.items()), room, record_bytes, ahead,
        frozenset(metadata.keys() - members.keys()),
    )


def _decode(metadata: Mapping[str, bytes]) -> dict[str, MemberMetadata]:
    members: dict[str, MemberMetadata] = {}
    for id_, data in metadata.items():
        try:
            members[id_] = decode_metadata(data)
        except CodecError as error:
            _log.error("Group member %s gets no work: its metadata cannot be read: %s", shown(id_), error)
    return members


def _owners(members: Mapping[str, MemberMetadata], assignments: Mapping[str, Assignment]) -> Owners:
    """Everything that runs once all members have followed their assignments; empty after a failed round."""
    owners: list[tuple[ItemId, str]] = []
    for id_, assignment in assignments.items():
        owned = members[id_].owned
        if assignment.failed:
            continue
        kept = owned.minus(assignment.revoked).plus(assignment.assigned) if owned else assignment.assigned
        items: list[ItemId] = [*kept.connectors, *kept.tasks]
        owners += [(item, members[id_].url) for item in items]
    return tuple(owners)
