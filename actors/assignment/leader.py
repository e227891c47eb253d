"""The leader's part in a rebalance: it reads the members' metadata, runs an assignor, and writes the assignments."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from actors.assignment import cooperative, eager
from actors.assignment.codec import CodecError, decode_metadata, encode_assignment
from actors.assignment.cooperative import AssignorState
from actors.assignment.protocol import Allocation, Assignment, MemberMetadata, Protocol, Workers
from actors.assignment.record_size import DEFAULT_RECORD_BYTES, fitting, heaviest, no_room, too_long, used_bytes
from storage.config.state import ClusterConfigState
from storage.ids import ItemId
from storage.log.record import shown

_logger = logging.getLogger(__name__)

Owners = tuple[tuple[ItemId, str], ...]
Reasons = tuple[tuple[ItemId, str], ...]


@dataclass(frozen=True, slots=True)
class RebalancePlan:
    """The outcome of a leader's rebalance: the bytes for each member, and the REST address of the worker of each item.

    `left_out`: the items that were assigned to no member, and why. `room`: by how many bytes the group's record may
    still grow, up to `record_bytes`. `ahead`: members that claim to have read more of the config topic than the leader.
    `unread`: members whose metadata cannot be read. `workers`: the other members.
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
    workers: Workers = ()


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
) -> RebalancePlan:
    """A complete rebalance, from bytes to bytes. Pure except for log lines; `metadata` is keyed by member id and
    includes the leader's own.

    A member whose metadata cannot be read gets nothing and loses nothing; the others share the work. The same holds for
    `doubted` members: they claimed to be ahead of the leader, but the config topic had nothing that the leader lacked.

    The eager protocol does not change the cooperative assignor's state, which becomes invalid because generations are
    missing from it.
    """
    members = _decode(metadata)
    ahead_of_leader = frozenset(id_ for id_, member in members.items() if member.config_offset > config.offset)
    idle = ahead_of_leader & doubted
    for id_ in sorted(idle):
        _logger.error("Group member %s gets no work: it claims to have read the config topic up to offset %d, but the "
                      "topic ends at %d", shown(id_), members[id_].config_offset, config.offset)

    def decide(left_out: Collection[ItemId], max_moved: int | None) -> tuple[AssignorState, dict[str, Assignment]]:
        if protocol is Protocol.EAGER:
            return state, eager.assign(members, config, leader=leader, idle=idle, left_out=left_out)
        return cooperative.assign(
            state, members, config, leader=leader, generation=generation, last_completed=last_completed, now_ms=now_ms,
            max_delay_ms=max_delay_ms, idle=idle, left_out=left_out, max_moved=max_moved,
        )

    def encode(assignments: Mapping[str, Assignment]) -> dict[str, bytes]:
        nothing = Assignment(leader, members[leader].url, assignments[leader].config_offset)
        return {id_: encode_assignment(assignments.get(id_, nothing), protocol) for id_ in metadata}

    left_out, max_moved = too_long(config), None
    while True:
        decided, assignments = decide(left_out, max_moved)
        encoded = encode(assignments)
        room = record_bytes - used_bytes(metadata, encoded)
        if room < 0:
            assignments = _postponed(assignments, config, -room)
            encoded = encode(assignments)
            room = record_bytes - used_bytes(metadata, encoded)
        assigned_items = [item for assignment in assignments.values() for item in assignment.assigned.items]
        revoked = sum(len(_configured(assignment.revoked, config)) for assignment in assignments.values())
        moved = revoked if max_moved is None else max_moved
        if room >= 0 or not (assigned_items or moved):
            break
        if moved:  # move less at a time: the following rebalances move the rest
            max_moved = moved // 2
        else:
            left_out |= dict.fromkeys(heaviest(assigned_items, -room), no_room(record_bytes - room, record_bytes))
    if max_moved is not None:
        _logger.warning("Work is moved to other workers in several steps: moving all of it at once would not fit into "
                        "the single record of at most %d bytes in which Kafka keeps a group", record_bytes)
    return RebalancePlan(
        decided, generation, encoded, _owners(members, assignments), tuple(left_out.items()), room, record_bytes,
        ahead_of_leader, frozenset(metadata.keys() - members.keys()),
        tuple((id_, member.url) for id_, member in sorted(members.items())),
    )


def _decode(metadata: Mapping[str, bytes]) -> dict[str, MemberMetadata]:
    members: dict[str, MemberMetadata] = {}
    for id_, data in metadata.items():
        try:
            members[id_] = decode_metadata(data)
        except CodecError as error:
            _logger.error("Group member %s gets no work: could not read its metadata: %s", shown(id_),  # noqa: TRY400
                          error)
    return members


def _postponed(assignments: Mapping[str, Assignment], config: ClusterConfigState, excess: int) -> dict[str, Assignment]:
    """Revokes less of what is not configured any more, or never was, to save `excess` bytes: a member that claims to
    run very much of it would take the room of all others. It gives up the rest in the following rebalances.
    """
    shorter = dict(assignments)
    gone = {id_: assignment.revoked.items - _configured(assignment.revoked, config)
            for id_, assignment in assignments.items()}
    for id_ in sorted(gone, key=lambda id_: (-len(gone[id_]), id_)):
        if excess <= 0 or not gone[id_]:
            break
        before = assignments[id_]
        postponed = gone[id_] - fitting(gone[id_], excess)
        shorter[id_] = replace(before, revoked=Allocation.of(before.revoked.items - postponed))
        excess -= sum(len(encode_assignment(one, Protocol.COMPATIBLE)) * sign
                      for one, sign in ((before, 1), (shorter[id_], -1)))
    return shorter


def _configured(allocation: Allocation, config: ClusterConfigState) -> frozenset[ItemId]:
    names = config.connector_configs
    tasks = (task for task in allocation.tasks
             if task.connector in names and task.task < config.task_count(task.connector))
    return frozenset((*(name for name in allocation.connectors if name in names), *tasks))


def _owners(members: Mapping[str, MemberMetadata], assignments: Mapping[str, Assignment]) -> Owners:
    """Everything that runs once all members have carried out their assignments; empty after a failed rebalance."""
    owners: list[tuple[ItemId, str]] = []
    for id_, assignment in assignments.items():
        owned = members[id_].owned
        if assignment.failed:
            continue
        kept = owned.minus(assignment.revoked).plus(assignment.assigned) if owned else assignment.assigned
        items: list[ItemId] = [*kept.connectors, *kept.tasks]
        owners += [(item, members[id_].url) for item in items]
    return tuple(owners)
