"""The store actors over both kinds of log: two workers with the same topics have the same state."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from actors.messages.commands import (
    ClaimWritePrivileges,
    PutConnectorConfig,
    PutStatus,
    PutTargetState,
    PutTaskConfigSet,
    RemoveConnectorConfig,
)
from storage.errors import PrivilegedWriteError
from storage.ids import ConnectorName, ConnectorTaskId, State, TargetState, WorkerId
from storage.offsets.stores import OffsetStores, OffsetTopic
from storage.status.state import Status
from tests.contract.conftest import Logs
from tests.rigs.stores import Rig, decide, running
from tests.rigs.support import wait_until

A = ConnectorName("a")


@pytest.fixture
def rig() -> Iterator[Rig]:
    with running() as made:
        yield made


def test_two_workers_read_the_same_configuration(rig: Rig, logs: Logs) -> None:
    (leader, view), (_, follower) = rig.config_store(logs.log()), rig.config_store(logs.log())
    view.ready.result(20)
    follower.ready.result(20)
    assert rig.write(leader, PutConnectorConfig(A, {"k": "v"}, TargetState.PAUSED)).error is None
    assert view.config.connector_configs == {A: {"k": "v"}}  # read back before the answer
    assert rig.write(leader, PutTaskConfigSet(A, ({"t": "0"}, {"t": "1"}))).error is None
    assert rig.write(leader, PutTargetState(A, TargetState.STARTED)).error is None
    wait_until(lambda: follower.config.offset == view.config.offset)
    assert follower.config == view.config
    assert follower.config.tasks(A) == [ConnectorTaskId(A, 0), ConnectorTaskId(A, 1)]
    _, late = rig.config_store(logs.log())
    late.ready.result(20)
    assert late.config == view.config
    rig.write(leader, RemoveConnectorConfig(A))
    wait_until(lambda: follower.config.connectors() == [] and late.config == follower.config)


def test_a_new_leader_fences_the_writes_of_the_old_one(rig: Rig, logs: Logs) -> None:
    (old, view), (new, _) = rig.config_store(logs.log(), logs.writer()), rig.config_store(logs.log(), logs.writer())
    for ref in (old, new):
        op = rig.op()
        ref.tell(ClaimWritePrivileges(op))
        assert rig.done(op).error is None
        assert rig.write(ref, PutTaskConfigSet(A, ({}, {}))).error is None
    assert isinstance(rig.write(old, PutConnectorConfig(A, {"by": "old"})).error, PrivilegedWriteError)
    assert rig.write(new, PutConnectorConfig(A, {"by": "new"})).error is None
    assert rig.write(new, PutTaskConfigSet(A, ({}, {}))).error is None
    wait_until(lambda: view.config.connector_configs == {A: {"by": "new"}} and len(view.config.tasks(A)) == 2)


def test_two_workers_read_the_same_statuses(rig: Rig, logs: Logs) -> None:
    (one, view), (two, other) = rig.status_store(logs.log()), rig.status_store(logs.log())
    view.ready.result(20)
    other.ready.result(20)
    status = Status(ConnectorTaskId(A, 0), State.RUNNING, WorkerId("one:1"), 1)
    decide(one, PutStatus(status, safe=False))
    wait_until(lambda: other.statuses.tasks == {A: {0: status}})
    taken = replace(status, worker_id=WorkerId("two:1"), generation=2)
    decide(two, PutStatus(taken, safe=False))
    wait_until(lambda: view.statuses.tasks == {A: {0: taken}})
    decide(one, PutStatus(replace(status, state=State.UNASSIGNED), safe=True))
    decide(one, PutStatus(replace(status, id=A), safe=False))
    wait_until(lambda: A in other.statuses.connectors)
    assert other.statuses.tasks == {A: {0: taken}}
    decide(two, PutStatus(replace(taken, state=State.DESTROYED), safe=False))
    wait_until(lambda: view.statuses.tasks == {})


def test_two_workers_read_each_others_offsets(logs: Logs) -> None:
    topics = [OffsetTopic(logs.log()), OffsetTopic(logs.log())]
    for topic in topics:
        topic.start().result(20)
    one, two = (OffsetStores(topic, lambda _: logs.log()).of(A) for topic in topics)
    one.begin_write([({"file": "x"}, {"pos": 1})])()
    assert two.read() == [({"file": "x"}, {"pos": 1})]  # reads to the end first
    two.begin_write([({"file": "x"}, None), ({"file": "y"}, {"pos": 2})])()
    assert one.read() == [({"file": "y"}, {"pos": 2})]
