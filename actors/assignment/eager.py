"""The eager assignor: round robin over all members, everything anew in each round."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from itertools import cycle

from actors.assignment.protocol import Allocation, Assignment, AssignmentError, MemberMetadata
from actors.assignment.weights import Weights
from storage.config.state import ClusterConfigState
from storage.ids import ItemId


def assign(
    members: Mapping[str, MemberMetadata],
    config: ClusterConfigState,
    *,
    leader: str,
    idle: Collection[str] = (),
    left_out: Collection[ItemId] = (),
) -> dict[str, Assignment]:
    """Deal all connectors, then all tasks, to the members in turn. Pure.

    `members` is keyed by member id and holds `leader`. When the leader's `config` is behind a member's, everybody
    gets CONFIG_MISMATCH and nothing to do. Connectors come first because dealing each with its tasks would put all
    connectors on some members and all tasks on others where every connector has one task. Where a connector has a
    weight, tasks go by weight. `idle` members get nothing
    and what they say of offsets does not count; nobody gets what is `left_out`.
    """
    newest = max(member.config_offset for id_, member in members.items() if id_ not in idle)
    if config.offset < newest:
        return config_mismatch(members, leader=leader, offset=newest)
    dealt: dict[str, set[ItemId]] = {member: set() for member in members}
    working = sorted(members.keys() - set(idle))
    ring = cycle(working)
    weights, names = Weights.of(config), config.connectors()
    tasks = [task for name in names for task in config.tasks(name) if task not in left_out]
    items: list[ItemId] = [name for name in names if name not in left_out]
    for item in items if weights else [*items, *tasks]:
        dealt[next(ring)].add(item)
    if weights:
        weights.give({id_: dealt[id_] for id_ in working}, tasks)
    url = members[leader].url
    return {member: Assignment(leader, url, config.offset, Allocation.of(items)) for member, items in dealt.items()}


def config_mismatch(members: Mapping[str, MemberMetadata], *, leader: str, offset: int) -> dict[str, Assignment]:
    """What everybody gets when the leader has not yet read the config topic as far as another member."""
    url = members[leader].url
    answer = Assignment(leader, url, offset, error=AssignmentError.CONFIG_MISMATCH)
    return dict.fromkeys(members, answer)
