"""Internal topics on a real broker: created as configured, refused if they could lose data."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from kafka.admin import ConfigResource, ConfigResourceType, KafkaAdminClient

from heeler.worker.keys.worker import STORAGE_KEYS
from spark_tasks.errors import ConfigError, ConnectError
from spark_tasks.kafka.admin import KafkaAdmin
from storage.log.internal_topics import InternalTopic, ensure_topics, internal_topics

pytestmark = pytest.mark.integration


@pytest.fixture
def admin(broker: Any) -> Iterator[KafkaAdminClient]:
    client = KafkaAdminClient(bootstrap_servers=broker.bootstrap_servers)
    yield client
    client.close()


@pytest.fixture
def worker(topic_name: str) -> dict[str, str]:
    kinds = ("config", "offset", "status")
    return {
        **{f"{kind}.storage.topic": f"{topic_name}-{kind}" for kind in kinds},
        **{f"{kind}.storage.replication.factor": "1" for kind in kinds},
        "offset.storage.partitions": "3",
        "status.storage.partitions": "2",
    }


def topics_of(worker: dict[str, str]) -> tuple[InternalTopic, ...]:
    return internal_topics(STORAGE_KEYS.parse(worker), worker)


def described(admin: KafkaAdminClient, name: str) -> tuple[int, dict[str, str]]:
    [topic] = admin.describe_topics([name])
    configs = admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, name)], config_filter="all")
    return len(topic["partitions"]), {k: v["value"] for k, v in configs["topic"][name].items()}


def test_internal_topics_are_created_as_configured_and_not_changed_afterwards(
    admin: KafkaAdminClient, worker: dict[str, str]
) -> None:
    worker |= {"config.storage.min.insync.replicas": "1", "config.storage.partitions": "7",
               "status.storage.cleanup.policy": "delete", "offset.storage.segment.bytes": "2097152"}
    topics = topics_of(worker)
    ensure_topics(KafkaAdmin(admin), topics)
    admin.wait_for_topics([topic.name for topic in topics])
    found = [described(admin, topic.name) for topic in topics]
    assert [count for count, _ in found] == [1, 3, 2]
    assert {settings["cleanup.policy"] for _, settings in found} == {"compact"}
    assert found[1][1]["segment.bytes"] == "2097152"
    ensure_topics(KafkaAdmin(admin), topics_of({**worker, "offset.storage.partitions": "9"}))
    assert described(admin, topics[1].name)[0] == 3


def test_partitions_and_replication_of_minus_one_use_the_brokers_defaults(
    admin: KafkaAdminClient, worker: dict[str, str]
) -> None:
    topics = topics_of({**worker, "status.storage.partitions": "-1", "status.storage.replication.factor": "-1"})
    ensure_topics(KafkaAdmin(admin), topics)
    admin.wait_for_topics([topics[2].name])
    assert described(admin, topics[2].name)[0] >= 1


def test_a_config_topic_with_more_partitions_is_refused(admin: KafkaAdminClient, worker: dict[str, str]) -> None:
    options = {"num_partitions": 2, "configs": {"cleanup.policy": "compact"}}
    admin.create_topics({worker["config.storage.topic"]: options}, wait_for_metadata=True)
    with pytest.raises(ConfigError, match=r"'config.storage.topic' property is required to have a single partition.*2"):
        ensure_topics(KafkaAdmin(admin), topics_of(worker))


@pytest.mark.parametrize("policy", ["delete", "compact,delete"])
def test_a_topic_that_is_not_just_compacted_is_refused(
    admin: KafkaAdminClient, worker: dict[str, str], policy: str
) -> None:
    admin.create_topics({worker["offset.storage.topic"]: {"configs": {"cleanup.policy": policy}}},
                        wait_for_metadata=True)
    with pytest.raises(ConfigError, match=f"'offset.storage.topic'.*'cleanup.policy=compact'.*policy={policy}'"):
        ensure_topics(KafkaAdmin(admin), topics_of(worker))


def test_a_replication_factor_above_the_number_of_brokers_is_refused(
    admin: KafkaAdminClient, worker: dict[str, str]
) -> None:
    worker["config.storage.replication.factor"] = "3"
    with pytest.raises(ConfigError, match=r"set 'config.storage.replication.factor'"):
        ensure_topics(KafkaAdmin(admin), topics_of(worker))


def test_topic_settings_unknown_to_the_broker_are_refused(admin: KafkaAdminClient, worker: dict[str, str]) -> None:
    worker["status.storage.no.such.setting"] = "1"
    with pytest.raises(ConnectError, match=r"status.storage.topic.*no\.such\.setting"):
        ensure_topics(KafkaAdmin(admin), topics_of(worker))
