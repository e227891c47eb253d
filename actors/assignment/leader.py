"""What the leader does in a round: read what the members said, let an assignor decide, write what each is given."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass

from actors.assignment import cooperative, eager
from actors.assignment.codec import CodecError, decode_metadata, encode_assignment
from actors.assignment.cooperative import AssignorState
from actors.assignment.protocol import Assignment, MemberMetadata, Protocol
from storage.config_state import ClusterConfigState
from storage.ids import ItemId

_log = logging.getLogger(__name__)

Owners = tuple[tuple[ItemId, str], ...]


@dataclass(frozen=True, slots=True)
class Plan:
    """The outcome of a leader's round: bytes for each member, and who then runs what at which REST address."""

    state: AssignorState
    generation: int
    assignments: Mapping[str, bytes]
    owners: Owners


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
) -> Plan:
    """A whole round over bytes. Pure but for the log; `metadata` is keyed by member id and holds the leader's own.

    A member whose metadata cannot be read gets nothing and loses nothing; the others share the work. The eager
    protocol leaves the cooperative assignor's state as it is: the generations it misses make it void by themselves.
    """
    members = _decode(metadata)
    if protocol is Protocol.EAGER:
        assignments = eager.assign(members, config, leader=leader)
    else:
        state, assignments = cooperative.assign(
            state,
            members,
            config,
            leader=leader,
            generation=generation,
            last_completed=last_completed,
            now_ms=now_ms,
            max_delay_ms=max_delay_ms,
        )
    nothing = Assignment(leader, members[leader].url, assignments[leader].config_offset)
    return Plan(
        state,
        generation,
        {id_: encode_assignment(assignments.get(id_, nothing), protocol) for id_ in metadata},
        _owners(members, assignments),
    )


def _decode(metadata: Mapping[str, bytes]) -> dict[str, MemberMetadata]:
    members: dict[str, MemberMetadata] = {}
    for id_, data in metadata.items():
        try:
            members[id_] = decode_metadata(data)
        except CodecError as error:
            _log.error("Group member %s gets no work: what it says cannot be read: %s", id_, error)
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
