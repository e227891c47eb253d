"""What a group's leader asks Kafka outside the group protocol: how large the group's record may be, and who its members
are.

The responses improve assignments and log lines. If Kafka does not respond, or does not permit the requests, the
rebalance continues without them.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from actors.assignment.leader import RebalancePlan
from actors.assignment.record_size import DEFAULT_RECORD_BYTES, MORE_ROOM
from spark_tasks.errors import ConnectError
from spark_tasks.kafka.connections import Send
from spark_tasks.kafka.group_queries import GROUPS_TOPIC, RECORD_LIMIT, described_members, group_record_limit
from storage.log.record import shown

_logger = logging.getLogger(__name__)


class LeaderNotes:
    """What a leader remembers between rebalances in addition to the assignor's state.

    `record_bytes`: how large the group's record may be. `doubted`: members that claim to have read more of the config
    topic than it contained when the leader later read it to its end.
    """

    def __init__(self, group_id: str) -> None:
        self.record_bytes = DEFAULT_RECORD_BYTES
        self.doubted: frozenset[str] = frozenset()
        self._ahead: tuple[int, frozenset[str]] = (-1, frozenset())  # a generation, and who was ahead in it
        self._group_id = group_id
        self._configured_bytes: int | None = None  # the limit as the brokers last reported it
        self._asks = True
        self._logged: frozenset[str] = frozenset()  # members that have been reported in the log

    async def learn(self, send: Send) -> None:
        """Asks for the size limit if it is not known, or may have been raised."""
        if self._asks:
            limit = await _record_bytes(send)
            if limit is not None and limit != self._configured_bytes:
                self._configured_bytes = self.record_bytes = limit
            self._asks = False

    def refused(self, plan: RebalancePlan) -> None:
        """The brokers rejected a rebalance without a reason: the next one will be smaller, if that can help."""
        used = self.record_bytes - plan.room
        if plan.room < 0:
            _logger.error(
                "The brokers rejected a rebalance of the group %s without a reason, probably because what its members "
                "sent takes more than the one record in which Kafka keeps a group (%d of %d bytes): one of them may "
                "not be a Kafka Connect worker. %s", self._group_id, used, self.record_bytes, MORE_ROOM)
            return
        self.record_bytes = min(self.record_bytes, used) * 9 // 10
        _logger.error(
            "The brokers rejected a rebalance of the group %s without a reason, so the next one will be smaller. Its "
            "assignments took %d bytes; perhaps they did not fit into the one record in which Kafka keeps a group. %s",
            self._group_id, used, MORE_ROOM)

    def caught_up(self, generation: int) -> None:
        """The leader has read the config topic to its end after the failed rebalance of this generation."""
        failed, members = self._ahead
        if failed == generation:
            self.doubted |= members

    def followed(self, plan: RebalancePlan) -> list[tuple[frozenset[str], str]]:
        """A rebalance is over. Returns members that get no work and have not been logged yet, with the reason."""
        doubted = self.doubted & plan.ahead
        reasons = [
            (plan.unread - self._logged, "sends metadata that is not a Kafka Connect worker's, and gets no work"),
            (doubted - self._logged, "claims to have read more of the config topic than there is, and gets no work"),
        ]
        self.doubted, self._ahead, self._logged = doubted, (plan.generation, plan.ahead), plan.unread | doubted
        self._asks = bool(plan.left_out)
        return [(members, why) for members, why in reasons if members]


async def _record_bytes(send: Send) -> int | None:
    """How large the group's record may be, in bytes; None if the brokers do not say."""
    try:
        return await group_record_limit(send)
    except ConnectError as error:
        _logger.debug("Could not determine the %s of %s: %s", RECORD_LIMIT, GROUPS_TOPIC, error)
        return None


async def log_members(send: Send, group_id: str, members: Iterable[str], why: str) -> None:
    """Logs the client id and the host of some members, with the reason `why`."""
    try:
        described = await described_members(send, group_id)
    except ConnectError as error:
        _logger.debug("Could not list the members of group %s: %s", group_id, error)
        return
    wanted = set(members)
    for member in described:
        if member.member_id in wanted:
            _logger.error("Member %s of group %s (client id %s, host %s) %s", shown(member.member_id), group_id,
                          shown(member.client_id), shown(member.client_host), why)
