"""Members of sinks' consumer groups when their worker stops, with a real broker."""

from __future__ import annotations

import threading

import pytest

from spark_tasks.errors import ConnectError
from spark_tasks.kafka.group_io import COMMIT_PAUSE_S, GroupIo
from spark_tasks.kafka.membership import ConsumerSettings, GroupConsumer
from tests.rigs.support import wait_until
from tests.rigs.workers import Kafka

pytestmark = [pytest.mark.integration, pytest.mark.timeout(120)]


def test_a_worker_ends_although_tasks_are_still_members(broker, topic_name):
    """Those that did not stop in time: one that does nothing, one that is closing while another waits for the group."""
    Kafka(broker.bootstrap_servers).create(topic_name)
    io, client = GroupIo(), {"bootstrap_servers": broker.bootstrap_servers}
    members = [GroupConsumer(ConsumerSettings(f"{topic_name}-{n}", client, (topic_name,)), io, lambda: None)
               for n in range(3)]
    for member in members[:2]:
        wait_until(lambda member=member: member.poll(1000) and member.assignment(), 30, "the assignment")
    assert (len(io.members), io.commit_pause_s) == (3, COMMIT_PAUSE_S)
    before = {thread for thread in threading.enumerate() if "heeler-sinks" in thread.name}
    assert len(before) == 1
    ends = [threading.Thread(target=io.close), threading.Thread(target=members[0].close)]
    for end in ends:
        end.start()
    for end in ends:
        end.join(20)
        assert not end.is_alive()
    assert not any(thread.is_alive() for thread in before)
    for member in members:
        member.close()  # whenever its task gets that far
    assert not io.members
    with pytest.raises(ConnectError):
        GroupConsumer(ConsumerSettings(topic_name, client, (topic_name,)), io, lambda: None)
