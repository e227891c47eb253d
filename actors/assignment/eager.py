"""The eager assignor: round robin over all members, everything anew in each round."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from itertools import cycle

from actors.assignment.protocol import Allocation, Assignment, AssignmentError, MemberMetadata
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
    connectors on some members and all tasks on others where every connector has one task. `idle` members get nothing
    and what they say of offsets does not count; nobody gets what is `left_out`.
    """
    newest = max(member.config_offset for id_, member in members.items() if id_ not in idle)
    if config.offset < newest:
        return config_mismatch(members, leader=leader, offset=newest)
    dealt: dict[str, list[ItemId]] = {member: [] for member in members}
    ring = cycle(sorted(members.keys() - set(idle)))
    names = config.connectors()
    items: list[ItemId] = [*names, *(task for name in names for task in config.tasks(name))]
    for item in items:
        if item not in left_out:
            dealt[next(ring)].append(item)
    url = members[leader].url
    return {member: Assignment(leader, url, config.offset, Allocation.of(items)) for member, items in dealt.items()}


def config_mismatch(members: Mapping[str, MemberMetadata], *, leader: str, offset: int) -> dict[str, Assignment]:
    """What everybody gets when the leader has not yet read the config topic as far as another member."""
    url = members[leader].url
    answer = Assignment(leader, url, offset, error=AssignmentError.CONFIG_MISMATCH)
    return dict.fromkeys(members, answer)
