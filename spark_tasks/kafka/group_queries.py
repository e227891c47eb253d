"""Queries about a consumer group that are not part of the group protocol.

The parameter `send` sends a request of kafka-python and returns the response, or raises kafka.errors.KafkaError. Both
functions raise ConnectError.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from kafka.admin import ConfigResourceType
from kafka.protocol.admin import DescribeConfigsRequest, DescribeGroupsRequest

from spark_tasks.kafka.connections import Send
from spark_tasks.kafka.errors import translating


class DescribedMember(NamedTuple):
    """A member of a group as brokers describe it. The members choose these strings, so they are not trusted."""

    member_id: str
    client_id: str
    client_host: str


GROUPS_TOPIC: Final = "__consumer_offsets"
RECORD_LIMIT: Final = "max.message.bytes"


async def group_record_limit(send: Send) -> int | None:
    """Returns the max.message.bytes of __consumer_offsets, or None if the brokers do not return it."""
    resource = (ConfigResourceType.TOPIC.value, GROUPS_TOPIC, [RECORD_LIMIT])
    response = await _answer(send, DescribeConfigsRequest(resources=[resource], include_synonyms=False))
    try:
        return next(int(config.value) for result in response.results for config in result.configs
                    if config.name == RECORD_LIMIT)
    except (StopIteration, ValueError, TypeError):
        return None


async def described_members(send: Send, group_id: str) -> list[DescribedMember]:
    """Returns the group's current members."""
    response = await _answer(send, DescribeGroupsRequest(groups=[group_id], include_authorized_operations=False))
    return [DescribedMember(member.member_id, member.client_id, member.client_host)
            for group in response.groups for member in group.members]


async def _answer(send: Send, request: Any) -> Any:
    with translating(type(request).__name__):
        return await send(request)
