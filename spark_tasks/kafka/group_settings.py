"""The settings of a member of a consumer group."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from kafka.coordinator.assignors.abstract import RebalanceProtocol
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor

from spark_tasks.config.client_keys import client_config_def
from spark_tasks.errors import ConfigError


class _EagerStickyAssignor(CooperativeStickyAssignor):  # type: ignore[misc]
    """The cooperative assignor of a member that moves from another one to it (KIP-429) or back."""

    def supported_protocols(self) -> list[RebalanceProtocol]:
        return [RebalanceProtocol.EAGER]


_KAFKAS: Final = client_config_def("consumer").keys
_ASSIGNORS: Final[Mapping[str, Any]] = {
    "RangeAssignor": RangePartitionAssignor,
    "RoundRobinAssignor": RoundRobinPartitionAssignor,
    "StickyAssignor": StickyPartitionAssignor,
    "CooperativeStickyAssignor": CooperativeStickyAssignor,
}


def assignors(names: Iterable[str]) -> tuple[Any, ...]:
    """Returns kafka-python's assignors for `partition.assignment.strategy`. `names`: Java class names, with or without
    the package. Raises ConfigError.
    """
    found = []
    for name in filter(None, names):
        simple = name.rpartition(".")[2]
        if simple not in _ASSIGNORS:
            raise ConfigError(f"Invalid value {name} for configuration partition.assignment.strategy: expected some of "
                              f"{', '.join(_ASSIGNORS)}")
        found.append(_ASSIGNORS[simple])
    if len(set(found)) > 1:  # with others it cannot be cooperative, as in Java
        found = [_EagerStickyAssignor if one is CooperativeStickyAssignor else one for one in found]
    return tuple(found) or (RangePartitionAssignor,)


@dataclass(frozen=True, slots=True)
class ConsumerSettings:
    """The settings of a GroupConsumer. Exactly one of `topics` and `pattern` is set."""

    group_id: str
    client: Mapping[str, Any]  # kafka-python's connection settings; members with equal ones share connections
    topics: tuple[str, ...] = ()
    pattern: re.Pattern[str] | None = None
    session_timeout_ms: int = _KAFKAS["session.timeout.ms"].default
    heartbeat_interval_ms: int = _KAFKAS["heartbeat.interval.ms"].default
    max_poll_interval_ms: int = _KAFKAS["max.poll.interval.ms"].default
    group_instance_id: str | None = None
    exclude_internal_topics: bool = True
    allow_auto_create_topics: bool = True
    assignors: tuple[Any, ...] = (RangePartitionAssignor,)
    expects_others: bool = True  # more members will join soon; frequent heartbeats detect that quickly
    client_id: str = ""  # the member's client id in the group; "": that of `client`
