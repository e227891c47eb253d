"""An administrator's requests, with a client that answers as brokers do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn

import kafka.errors as protocol
import pytest

from spark_tasks.kafka.admin import KafkaAdmin, OffsetNotChangedError
from spark_tasks.kafka.errors import KafkaAuthorizationError, KafkaUnavailableError


class NoGroups:
    """A cluster without any group."""

    def delete_group_offsets(self, *_args: Any) -> NoReturn:
        raise protocol.GroupIdNotFoundError("OffsetDeleteRequest failed with response ...")

    def list_group_offsets(self, _groups: Mapping[str, None]) -> NoReturn:
        raise ConnectionResetError("reset by the broker")

    def delete_groups(self, groups: list[str]) -> dict[str, str]:
        return dict.fromkeys(groups, "GroupIdNotFoundError")


class OneAnswer:
    """A cluster that always answers with the same error. `waited`: the topics whose leaders were waited for."""

    def __init__(self, error: type[protocol.KafkaError]) -> None:
        self._error = error
        self.waited: list[str] = []

    def create_topics(self, topics: Mapping[str, Any], raise_errors: bool) -> dict[str, Any]:
        assert not raise_errors
        return {"topics": [{"name": name, "error_code": self._error.errno, "error_message": "why"} for name in topics]}

    def wait_for_topics(self, names: list[str]) -> None:
        self.waited += names


def test_no_offset_can_be_removed_from_a_group_that_does_not_exist() -> None:
    with pytest.raises(OffsetNotChangedError, match=r"^GroupIdNotFoundError$"):
        KafkaAdmin(NoGroups()).alter_group_offsets("g", {("t", 0): None})


def test_a_group_that_does_not_exist_is_deleted() -> None:
    KafkaAdmin(NoGroups()).delete_group("g")


def test_errors_say_what_the_connection_is_for() -> None:
    with pytest.raises(KafkaUnavailableError, match=r"^reading offsets of c: reset by the broker$"):
        KafkaAdmin(NoGroups(), "reading offsets of c").group_offsets("g")


@pytest.mark.parametrize(("error", "new", "waited"), [
    (protocol.NoError, True, ["t"]), (protocol.TopicAlreadyExistsError, False, []),
])
def test_only_a_new_topics_leaders_are_waited_for(
    error: type[protocol.KafkaError], new: bool, waited: list[str]
) -> None:
    cluster = OneAnswer(error)
    assert KafkaAdmin(cluster).create_topic("t", 1, 1, {}, wait=True) is new
    assert cluster.waited == waited


def test_without_permission_to_create_a_topic_the_error_names_it() -> None:
    cluster = OneAnswer(protocol.TopicAuthorizationFailedError)
    with pytest.raises(KafkaAuthorizationError, match=(
            r"^creating topic t: TopicAuthorizationFailedError: the principal of this client needs CREATE permission "
            r"on the topic or the cluster; or create the topic yourself$")):
        KafkaAdmin(cluster, "creating topic t").create_topic("t", 1, 1, {}, wait=True)
    assert cluster.waited == []
