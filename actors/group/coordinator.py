"""A worker's side of Kafka Connect's group protocol: metadata, plans, assignments.

Everything runs on the member's IO thread; `actors/group/driver.py` decides when to call it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from typing_extensions import override

from actors.assignment.codec import decode_assignment, encode_metadata
from actors.assignment.cooperative import AssignorState
from actors.assignment.leader import RebalancePlan, plan
from actors.assignment.protocol import Allocation, MemberMetadata, Membership, Protocol
from actors.group.leader_queries import LeaderNotes, log_members
from spark_tasks.kafka.group_member import GroupMember, JoinRefusedError, MemberSettings
from storage.config.state import ClusterConfigState


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSettings(MemberSettings):
    """A worker's group settings. `url`: its REST address, for the other workers."""

    url: str
    protocol: Protocol = Protocol.SESSIONED
    max_delay_ms: int = 300_000


class GroupCoordinator(GroupMember):
    """A member of a group of workers. `snapshot` returns the newest config state; `lost` is called with the reason when
    a membership ends.
    """

    group_type = "connect"

    def __init__(
        self, settings: GroupSettings, snapshot: Callable[[], ClusterConfigState], lost: Callable[[str], None]
    ) -> None:
        super().__init__(settings, lost)
        self.protocol = settings.protocol  # of the last completed rebalance
        self._settings: GroupSettings = settings
        self._snapshot = snapshot
        self._owned: Allocation | None = None
        self._last_completed = -1
        self._assignor = AssignorState()
        self._plan: RebalancePlan | None = None
        self._notes = LeaderNotes(settings.group_id)

    def caught_up(self, generation: int) -> None:
        """The leader has read the config topic to its end after the failed rebalance of this generation."""
        self._notes.caught_up(generation)

    async def join(self, owned: Allocation) -> Membership:
        """One attempt to join and sync; heartbeats pause meanwhile. Raises the errors of `complete_round`, and
        CodecError.
        """
        await self._notes.learn(self.ask)
        self._owned = owned
        try:
            round_ = await self.complete_round()
        except JoinRefusedError as error:
            planned = self._planned_in(self.generation_id)
            if error.unexplained and planned is not None:
                self._notes.refused(planned)
            raise
        assignment = decode_assignment(round_.assignment)
        self.protocol = Protocol(round_.protocol)
        self._last_completed = round_.generation
        self.begin_generation()
        led = self._planned_in(round_.generation)
        if led is None:
            return Membership(round_.generation, round_.member_id, self.protocol, assignment)
        for members, why in self._notes.followed(led):
            self.post(log_members, self.ask_coordinator, self._settings.group_id, members, why)
        return Membership(round_.generation, round_.member_id, self.protocol, assignment, led.owners, led.left_out,
                          led.room, led.record_bytes, led.workers)

    def _planned_in(self, generation: int) -> RebalancePlan | None:
        """The plan that this worker has made as the leader of a generation."""
        return self._plan if self._plan is not None and self._plan.generation == generation else None

    @override
    def offers(self) -> list[tuple[str, bytes]]:
        metadata = MemberMetadata(self._settings.url, self._snapshot().offset, self._owned)
        return [(offer.value, encode_metadata(metadata, offer)) for offer in self._settings.protocol.offers]

    @override
    def assign(self, protocol: str, leader: str, metadata: Mapping[str, bytes]) -> Mapping[str, bytes]:
        self._plan = plan(
            self._assignor,
            Protocol(protocol),
            metadata,
            self._snapshot(),
            leader=leader,
            generation=self.generation_id,
            last_completed=self._last_completed,
            now_ms=int(time.monotonic() * 1000),
            max_delay_ms=self._settings.max_delay_ms,
            doubted=self._notes.doubted,
            record_bytes=self._notes.record_bytes,
        )
        self._assignor = self._plan.state
        return self._plan.assignments
