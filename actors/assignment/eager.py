"""The eager assignor: round robin over all members; each rebalance assigns everything again."""

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
    """Assigns all connectors, then all tasks, to the members in turn. Pure.

    `members` is keyed by member id and holds `leader`. If the leader's `config` is behind a member's, every member
    gets CONFIG_MISMATCH and no work. Connectors come first: if every connector has one task, assigning each connector
    together with its task would put all connectors on some members and all tasks on others. If any connector has a
    weight, tasks are assigned by weight. `idle` members get nothing and the config offsets that they report are
    ignored; items in `left_out` are assigned to no member.
    """
    newest = max(member.config_offset for id_, member in members.items() if id_ not in idle)
    if config.offset < newest:
        return config_mismatch(members, leader=leader, offset=newest)
    items_of: dict[str, set[ItemId]] = {member: set() for member in members}
    working = sorted(members.keys() - set(idle))
    ring = cycle(working)
    weights, names = Weights.of(config), config.connectors()
    tasks = [task for name in names for task in config.tasks(name) if task not in left_out]
    items: list[ItemId] = [name for name in names if name not in left_out]
    for item in items if weights else [*items, *tasks]:
        items_of[next(ring)].add(item)
    if weights:
        weights.give({id_: items_of[id_] for id_ in working}, tasks)
    url = members[leader].url
    return {member: Assignment(leader, url, config.offset, Allocation.of(items)) for member, items in items_of.items()}


def config_mismatch(members: Mapping[str, MemberMetadata], *, leader: str, offset: int) -> dict[str, Assignment]:
    """The assignments of a rebalance in which the leader has not yet read the config topic as far as another member."""
    url = members[leader].url
    answer = Assignment(leader, url, offset, error=AssignmentError.CONFIG_MISMATCH)
    return dict.fromkeys(members, answer)
