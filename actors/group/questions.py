"""What a group's leader asks Kafka beside the group protocol: how large the group may be, and who its members are.

The answers serve better decisions and log lines; without an answer, or without the permission, the round continues
anyway.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

import kafka.errors as Errors  # noqa: N812 - the library's own name for it
from kafka.admin import ConfigResourceType
from kafka.protocol.admin import DescribeConfigsRequest, DescribeGroupsRequest

from actors.assignment.leader import RoundPlan
from actors.assignment.room import DEFAULT_RECORD_BYTES, no_room
from storage.log.record import shown

_log = logging.getLogger(__name__)

Send = Callable[[Any], Awaitable[Any]]

GROUPS_TOPIC = "__consumer_offsets"
_LIMIT = "max.message.bytes"


class LeaderNotes:
    """What a leader remembers between rounds, the assignor's state aside.

    `record_bytes`: how large the group's record may be. `doubted`: members that say that they have read more of the
    config topic than there was when the leader read it to its end, later.
    """

    def __init__(self, group_id: str) -> None:
        self.record_bytes = DEFAULT_RECORD_BYTES
        self.doubted: frozenset[str] = frozenset()
        self._ahead: tuple[int, frozenset[str]] = (-1, frozenset())  # who was ahead of it in which generation
        self._group_id = group_id
        self._told: int | None = None  # what the brokers said of the record
        self._asks = True
        self._odd: frozenset[str] = frozenset()  # members of which it has told who they are

    async def learn(self, send: Send) -> None:
        """Ask for the limit where it is not known, or may have been raised."""
        if self._asks:
            told = await _record_bytes(send)
            if told is not None and told != self._told:
                self._told = self.record_bytes = told
            self._asks = False

    def refused(self, plan: RoundPlan) -> None:
        """The brokers did not take a round, for no reason that they tell: the next one will be smaller."""
        used = self.record_bytes - plan.room
        self.record_bytes = min(self.record_bytes, used) * 9 // 10
        _log.error("The brokers rejected a round of the group %s. In case it was too large: %s", self._group_id,
                   no_room(used, self.record_bytes))

    def caught_up(self, generation: int) -> None:
        """The config topic was read to its end after that round."""
        failed, members = self._ahead
        if failed == generation:
            self.doubted |= members

    def followed(self, plan: RoundPlan) -> list[tuple[frozenset[str], str]]:
        """A round is over. The members that get no work and are new, and why they get none."""
        liars = self.doubted & plan.ahead
        found = [(plan.unread - self._odd, "sends metadata that is not a Kafka Connect worker's, and gets no work"),
                 (liars - self._odd, "claims to have read more of the config topic than there is, and gets no work")]
        self.doubted, self._ahead, self._odd = liars, (plan.generation, plan.ahead), plan.unread | liars
        self._asks = bool(plan.left_out)
        return [(members, why) for members, why in found if members]


async def _record_bytes(send: Send) -> int | None:
    """The largest record that the topic of all groups takes; None where that is not told."""
    resource = (ConfigResourceType.TOPIC.value, GROUPS_TOPIC, [_LIMIT])
    try:
        answer = await send(DescribeConfigsRequest(resources=[resource], include_synonyms=False))
        return next(int(config.value) for result in answer.results for config in result.configs
                    if config.name == _LIMIT)
    except (Errors.KafkaError, StopIteration, ValueError, TypeError) as error:
        _log.debug("The %s of %s is not known: %r", _LIMIT, GROUPS_TOPIC, error)
        return None


async def tell_who(send: Send, group_id: str, members: Iterable[str], why: str) -> None:
    """Log client and host of some members."""
    try:
        answer = await send(DescribeGroupsRequest(groups=[group_id], include_authorized_operations=False))
    except Errors.KafkaError as error:
        _log.debug("The members of group %s are not known: %r", group_id, error)
        return
    wanted = set(members)
    for member in (member for group in answer.groups for member in group.members):
        if member.member_id in wanted:
            _log.error("Member %s of group %s (client id %s, host %s) %s", shown(member.member_id), group_id,
                       shown(member.client_id), shown(member.client_host), why)
