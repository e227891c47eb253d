"""Requests for the offsets of connectors: those of sinks (KIP-875), and a store that does not answer."""

from __future__ import annotations

import logging
import queue
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pykka
import pytest

from actors.errors import BadRequestError, ConflictError
from actors.messages.requests import AlterOffsets, GetOffsets
from actors.stores import offset_requests
from actors.stores.offset_requests import MAX_CHANGES, MAX_READS, OffsetRequests, check_source_offset, sink_offset
from heeler.worker.logs import subject
from spark_tasks.config.client_properties import WorkerClients
from spark_tasks.errors import ConnectError
from spark_tasks.kafka.admin import KafkaAdmin
from spark_tasks.plugins.api import SourceConnector
from spark_tasks.plugins.third_party import CallsHere
from storage.ids import ConnectorName
from tests.rigs.support import wait_until

C = ConnectorName("c")


class Silent(pykka.ThreadingActor):
    """A store that does not respond."""

    def on_receive(self, message: Any) -> None:
        pass


@pytest.fixture
def requests(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Iterator[OffsetRequests]:
    """With what calls functions of third parties as the parameter, if there is one."""
    monkeypatch.setattr(offset_requests, "TIMEOUT_S", 0.05)
    config: Any = SimpleNamespace(own_offsets=lambda _: None, exactly_once=False)
    source = SimpleNamespace(cls=SourceConnector)
    plugins: Any = SimpleNamespace(connector_of=lambda _: source, connector_type=lambda _: "source")
    configs: Any = SimpleNamespace(config=SimpleNamespace(connector_configs={C: {}}))
    fencing: Any = None
    store = Silent.start()
    calls = getattr(request, "param", CallsHere)
    made = OffsetRequests(config, plugins, configs, lambda found, _: dict(found), store, fencing, calls)
    yield made
    made.close()
    store.stop()


@pytest.mark.parametrize("request_", [GetOffsets(C), AlterOffsets(C, (({"f": 1}, None),))])
def test_an_offsets_topic_that_does_not_respond_is_reported(requests: OffsetRequests, request_: Any) -> None:
    answered: Future[Exception | None] = Future()
    requests.start(request_, lambda _, error: answered.set_result(error))
    error = answered.result(20)
    assert isinstance(error, ConnectError)
    assert "No answer from the offsets topic within 0 s: its brokers are unreachable" in str(error)


def test_requests_that_hang_leave_threads_for_those_of_other_connectors() -> None:
    release, answers = threading.Event(), queue.Queue[Any]()

    def resolve(config: Any, name: str) -> Any:
        assert name == "d" or release.wait(20)
        raise ConnectError(f"resolved {name}")

    other = ConnectorName("d")
    configs: Any = SimpleNamespace(config=SimpleNamespace(connector_configs={C: {}, other: {}}))
    nothing: Any = None
    made = OffsetRequests(nothing, nothing, configs, resolve, nothing, nothing)

    def ask(name: ConnectorName, kind: str = "read") -> None:
        request = GetOffsets(name) if kind == "read" else AlterOffsets(name, None)
        made.start(request, lambda _, error: answers.put(error))

    for limit, kind in ((MAX_READS, "read"), (MAX_CHANGES, "change")):
        for _ in range(limit + 1):
            ask(C, kind)
        refused = answers.get(timeout=20)
        assert isinstance(refused, ConflictError)
        assert f"{limit} requests that {kind} the offsets of connector c have not ended" in str(refused)
    ask(other)
    assert str(answers.get(timeout=20)) == "resolved d"
    release.set()
    assert {str(answers.get(timeout=20)) for _ in range(MAX_READS + MAX_CHANGES)} == {"resolved c"}

    def served() -> bool:
        ask(C)
        return not isinstance(answers.get(timeout=20), ConflictError)

    wait_until(served, 20, "the threads to end")
    made.close()


@pytest.mark.parametrize(("offsets", "line"), [
    ((({"f": 1}, None),), "Offsets altered on request"), (None, "Offsets reset on request"),
])
def test_changed_offsets_are_a_line_of_the_log(
    requests: OffsetRequests, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, offsets: Any, line: str
) -> None:
    monkeypatch.setattr(Silent, "on_receive", lambda _, message: message.answer(()))
    caplog.set_level(logging.INFO, offset_requests.__name__)
    answered: Future[Exception | None] = Future()
    requests.start(AlterOffsets(C, offsets), lambda _, error: answered.set_result(error))
    assert answered.result(20) is None
    assert [(record.getMessage(), subject(record)) for record in caplog.records] == [(line, ("c", None))]


@pytest.mark.parametrize(("worker", "connector", "group"), [
    ({}, {}, "connect-c"), ({"consumer.group.id": "all"}, {}, "all"),
    ({"consumer.group.id": "all"}, {"consumer.override.group.id": "mine"}, "mine"),
])
def test_the_offsets_of_a_sink_are_those_of_its_tasks_group(
    monkeypatch: pytest.MonkeyPatch, worker: Any, connector: Any, group: str
) -> None:
    asked: list[str] = []
    admin = SimpleNamespace(group_offsets=lambda name: asked.append(name) or {("t", 0): 7}, close=lambda: None)
    monkeypatch.setattr(KafkaAdmin, "connect", lambda *_: admin)
    config: Any = SimpleNamespace(clients=WorkerClients.of({
        "bootstrap.servers": "none:1", "connector.client.config.override.policy": "All", **worker}))
    plugins: Any = SimpleNamespace(connector_of=lambda _: SimpleNamespace(cls=None), connector_type=lambda _: "sink")
    configs: Any = SimpleNamespace(config=SimpleNamespace(connector_configs={C: connector}))
    store: Any = None
    made = OffsetRequests(config, plugins, configs, lambda found, _: dict(found), store, store)
    answers: queue.Queue[Any] = queue.Queue()
    made.start(GetOffsets(C), lambda value, error: answers.put((value, error)))
    assert answers.get(timeout=10) == ([({"kafka_topic": "t", "kafka_partition": 0}, {"kafka_offset": 7})], None)
    assert asked == [group]
    made.close()


def test_a_plugin_that_exits_is_the_answer(monkeypatch: pytest.MonkeyPatch, requests: OffsetRequests) -> None:
    monkeypatch.setattr(SourceConnector, "alter_offsets", lambda *_: sys.exit(3))
    answered: Future[Exception | None] = Future()
    requests.start(AlterOffsets(C, (({"f": 1}, None),)), lambda _, error: answered.set_result(error))
    assert str(answered.result(20)) == "the plugin raised SystemExit: 3"


class Hangs(CallsHere):
    """Calls that hang until they are killed."""

    def __init__(self, connector: str) -> None:
        super().__init__(connector)
        self.killed = threading.Event()

    def call(self, plugin: type[Any], function: Any, *arguments: Any) -> Any:  # noqa: ARG002
        assert self.killed.wait(10)
        raise ConnectError("killed")

    def kill(self) -> None:
        self.killed.set()


@pytest.mark.parametrize("requests", [Hangs], indirect=True)
def test_a_plugin_that_hangs_is_ended_when_nobody_waits_any_more(
    monkeypatch: pytest.MonkeyPatch, requests: OffsetRequests
) -> None:
    monkeypatch.setattr(offset_requests, "DEADLINE_S", 0.01)
    monkeypatch.setattr(SourceConnector, "alter_offsets", lambda *_: True)
    answered: Future[Exception | None] = Future()
    requests.start(AlterOffsets(C, (({"f": 1}, None),)), lambda _, error: answered.set_result(error))
    assert str(answered.result(20)) == "killed"


@pytest.mark.parametrize(("partition", "offset", "kind"), [
    ({"x": {"a": 1}}, {"position": 3}, "MAP"), ({"f": "a", "x": []}, None, "ARRAY"), ({"f": "a"}, {"x": [3]}, "ARRAY"),
    ({"f": "a"}, {"x": {}}, "MAP"), ({"f": "a"}, {"x": 2**63}, "class java.math.BigInteger"),
    ({"f": "a"}, {"x": -(2**63) - 1}, "class java.math.BigInteger"),
])
def test_source_offsets_of_a_type_that_java_refuses(partition, offset, kind):
    with pytest.raises(ConnectError) as error:
        check_source_offset(partition, offset)
    assert str(error.value) == f"Offsets may only contain primitive types as values, but field x contains {kind}"


def test_source_offsets_may_have_any_primitive_type():
    check_source_offset({"f": "a", "n": None}, {"x": 2**63 - 1, "y": -(2**63), "z": 1.5, "t": True})
    check_source_offset({}, None)


@pytest.mark.parametrize(("nested", "offsets", "refused"), [
    (False, (({"f": {}}, None),), True), (True, (({"f": {}}, None),), False), (False, (({"f": 1}, None),), False),
])
def test_only_pythons_sources_have_offsets_with_lists_and_maps(
    monkeypatch: pytest.MonkeyPatch, requests: OffsetRequests, nested: bool, offsets: Any, refused: bool,
) -> None:
    asked: list[object] = []
    monkeypatch.setattr(SourceConnector, "nested_offsets", nested)
    monkeypatch.setattr(SourceConnector, "alter_offsets", lambda *_: asked.append(1))
    answered: Future[Exception | None] = Future()
    requests.start(AlterOffsets(C, offsets), lambda _, error: answered.set_result(error))
    assert ("Offsets may only contain primitive types" in str(answered.result(20))) is refused
    assert bool(asked) is not refused, "the plugin is asked after the check, as in Kafka Connect"


@pytest.mark.parametrize("nested", [False, True])
def test_a_source_partition_may_be_null_and_only_the_plugin_sees_it(
    monkeypatch: pytest.MonkeyPatch, requests: OffsetRequests, nested: bool
) -> None:
    """As in Kafka Connect, where its record is one that nothing reads. It was a TypeError."""
    written: list[Any] = []
    asked: list[Any] = []
    monkeypatch.setattr(SourceConnector, "nested_offsets", nested)
    monkeypatch.setattr(SourceConnector, "alter_offsets", lambda _, offsets: asked.append(offsets))
    monkeypatch.setattr(Silent, "on_receive", lambda _, message: written.append(message) or message.answer(()))
    answered: Future[Exception | None] = Future()
    pairs = ((None, {"p": 1}), ({"f": 1}, {"p": 2}), (None, None))
    requests.start(AlterOffsets(C, pairs), lambda _, error: answered.set_result(error))
    assert answered.result(20) is None
    assert asked == [list(pairs)]
    assert [message.offsets for message in written] == [(({"f": 1}, {"p": 2}),)]


# ---------------------------------------------------------------- sinks
PLACE = {"kafka_topic": "t", "kafka_partition": 3}
FAILED = "Failed to parse the following Kafka {0} value in the provided offsets: '{1}'. {2} values for sink connectors"


def test_numbers_in_sink_offsets_may_be_strings():
    assert sink_offset(PLACE, {"kafka_offset": 5}) == (("t", 3), 5)
    assert sink_offset({"kafka_topic": "t", "kafka_partition": "3"}, {"kafka_offset": "5"}) == (("t", 3), 5)
    assert sink_offset(PLACE, None) == (("t", 3), None)


@pytest.mark.parametrize(("partition", "offset", "text"), [
    (None, None, "The partition for a sink connector offset cannot be null or missing"),
    ({}, None, "must contain the keys 'kafka_topic' and 'kafka_partition'"),
    ({"kafka_topic": "t"}, None, "must contain the keys 'kafka_topic' and 'kafka_partition'"),
    ({**PLACE, "kafka_topic": None}, None, "Kafka topic names must be valid strings and may not be null"),
    ({**PLACE, "kafka_partition": None}, None, "Kafka partitions must be valid numbers and may not be null"),
    *(({**PLACE, "kafka_partition": wrong}, None, FAILED.format("partition", wrong, "Partition"))
      for wrong in ("x", "", " 1", "1_0", 1.5, 2**31)),
    (PLACE, {}, "The offset for a sink connector should either be null or contain the key 'kafka_offset'"),
    (PLACE, {"kafka_offset": None}, FAILED.format("offset", "null", "Offset")),
    ({**PLACE, "kafka_partition": True}, None, FAILED.format("partition", "true", "Partition")),
    (PLACE, {"kafka_offset": False}, FAILED.format("offset", "false", "Offset")),
    (PLACE, {"kafka_offset": 2**63}, FAILED.format("offset", 2**63, "Offset")),
])
def test_invalid_sink_offsets_are_refused(partition, offset, text):
    with pytest.raises(BadRequestError) as error:
        sink_offset(partition, offset)
    assert text in str(error.value)


def test_negative_sink_offsets_are_refused():
    with pytest.raises(ConnectError, match="Invalid negative offset -1 of t-3: nothing was altered"):
        sink_offset(PLACE, {"kafka_offset": -1})
