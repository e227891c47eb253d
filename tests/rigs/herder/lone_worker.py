"""A herder's actor with the real stores over topics in memory, real connector and task actors, and a group of one."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from typing import Any

import pykka

from actors.assignment.codec import decode_assignment, encode_metadata
from actors.assignment.cooperative import AssignorState
from actors.assignment.leader import plan
from actors.assignment.protocol import Allocation, MemberMetadata, Membership, Protocol
from actors.herder.actor import HerderActor, Ports
from actors.herder.effects import MakeSessionKey, Validate
from actors.herder.events import HaltRequested, Loaded, ProducersFenced, TaskConfigsPublished, Validated
from actors.herder.state import HerderSettings, HerderState
from actors.instances.connector import ConnectorActor
from actors.instances.pooled import ActorThreads
from actors.instances.registry import ActorInstances
from actors.instances.task import TaskActors
from actors.messages.commands import (
    AllowJoin,
    Decided,
    HerderAlive,
    JoinGroup,
    LeaveGroup,
    PutSessionKey,
    PutStatus,
    RequestRejoin,
    WriteConfig,
)
from actors.messages.events import Joined, JoinPreparing
from actors.messages.requests import Ask, GetStory, PutConnector, Request
from actors.stores.config import ConfigStoreActor
from actors.stores.status import StatusStoreActor
from actors.ticker import Ticker
from spark_tasks.plugins import Plugins
from spark_tasks.process.suspension import Pulse
from spark_tasks.task import Progress
from storage.config.state import SessionKey
from storage.config.view import ConfigView
from storage.ids import Config, ConnectorName, State, WorkerId
from storage.status.state import Status, StatusState
from storage.status.view import StatusView
from tests.rigs.memory_log import MemoryTopic, MemoryTopicLog
from tests.rigs.plugin_under_test import FOUND
from tests.rigs.support import wait_until

SESSION_MS = 400
PULSE_MS = 20
WITHIN_S = 20


class IdleRunner:
    """A task that has nothing to do."""

    version = "1"

    def start(self) -> None:
        pass

    def run_once(self) -> Progress:
        return Progress(idle_ms=60_000)

    def pause(self) -> None:
        pass

    def resume(self) -> None:
        pass

    def close(self) -> None:
        pass

    def cancel(self) -> None:
        pass

    def stop_starting(self) -> None:
        pass


class GroupOfOne:
    """What the herder hears of a group that it is alone in; the real assignor hands out the work."""

    def __init__(self, tell: Callable[[Any], None], configs: ConfigView) -> None:
        self.tell = tell
        self.configs = configs
        self.left = threading.Event()
        self.asking = self.again = False
        self.generation = 0
        self.assignor = AssignorState()

    def __call__(self, message: Any) -> None:
        match message:
            case JoinGroup() | RequestRejoin() if self.asking:
                self.again = True
            case JoinGroup() | RequestRejoin():
                self.asking = True
                self.tell(JoinPreparing(eager=False))
            case AllowJoin(owned):
                self.asking = False
                self._rebalance(owned)
                if self.again:
                    self.again = False
                    self(RequestRejoin("again"))
            case LeaveGroup():
                self.left.set()

    def _rebalance(self, owned: Allocation) -> None:
        config, before = self.configs.config, self.generation
        self.generation += 1
        metadata = encode_metadata(MemberMetadata("http://me/", config.offset, owned), Protocol.SESSIONED)
        made = plan(self.assignor, Protocol.SESSIONED, {"me": metadata}, config, leader="me", now_ms=0,
                    generation=self.generation, last_completed=before or -1, max_delay_ms=300_000)
        self.assignor = made.state
        self.tell(Joined(Membership(self.generation, "me", Protocol.SESSIONED,
                                    decode_assignment(made.assignments["me"]), made.owners)))


class LoneWorker:
    """A herder, its events and its effects.

    Tests change `statuses` and `kind`, which the herder requests, and `validate` and `delegate`, which it calls.
    `put`: what it put into the status store. `holds`: messages of this class are `held` back from it.
    """

    def __init__(self) -> None:
        self.states: list[HerderState] = []
        self.failures: list[str] = []
        self.halted = threading.Event()
        self.kind: Callable[[Config], str] = lambda _: "source"
        self.validate: Callable[[Validate], None] = lambda effect: self.tell(Validated(effect.request_id))
        self.delegate: Callable[[Any, Any], None] = lambda _, answer: answer("delegated", None)
        self.suspended_s = 0.0
        self.pulse = Pulse(lambda: time.monotonic() + self.suspended_s)
        self.put: list[Any] = []
        self.holds: type | None = None
        self.held: list[Any] = []
        self.ticker = Ticker()
        self.ticker.start()
        self.configs, self.view = ConfigView(), StatusView()
        self.statuses: Callable[[], StatusState] = lambda: self.view.statuses
        self.config_store = ConfigStoreActor.start(MemoryTopicLog(MemoryTopic("configs")), self.tell, self.configs,
                                                   self.ticker)
        self.status_store = StatusStoreActor.start(MemoryTopicLog(MemoryTopic("statuses")), self.tell, self.view,
                                                   self.ticker)
        self.group = GroupOfOne(self.tell, self.configs)
        tasks = TaskActors(self.tell, lambda *_: IdleRunner(), self.ticker)
        instances = ActorInstances(
            self.tell,
            lambda epoch, _: ConnectorActor.start(epoch, self.tell, Plugins(installed=FOUND), lambda given, _: given,
                                                  lambda *_: [], threads=ActorThreads()),
            tasks.start, tasks.cancel, tasks.stopping)
        ports = Ports(
            config_store=self.config_store.tell, status_store=self._put, member=self.group,
            instances=instances, validate=lambda effect: self.validate(effect),  # noqa: PLW0108 - as it is then
            delegate=lambda effect, answer: self.delegate(effect, answer),  # noqa: PLW0108 - as it is then
            send_task_configs=lambda effect: self.tell(TaskConfigsPublished(effect.op)),
            fence_producers=lambda effect: self.tell(ProducersFenced(effect.op)),
            make_session_key=self._make_key, forget_topics=lambda _: None, set_logger_level=lambda _: None,
            statuses=lambda: self.statuses(),  # noqa: PLW0108 - as it is then
            publish=self.states.append, pulse=self.pulse, halted=self.halted.set, failed=self._failed)
        settings = HerderSettings(WorkerId("me:1"), "g", session_timeout_ms=SESSION_MS, graceful_stop_ms=2000,
                                  connector_type=lambda config: self.kind(config))  # noqa: PLW0108 - as it is then
        self.ref = HerderActor.start(settings, ports, self.ticker)
        self.configs.ready.result(WITHIN_S)
        self.view.ready.result(WITHIN_S)
        self.ticker.every("pulse", PULSE_MS, lambda: self.tell(HerderAlive()))
        self.tell(Loaded(self.configs.config))

    def _put(self, message: Any) -> None:
        self.put.append(message)
        self.status_store.tell(message)

    def statuses_put(self) -> list[tuple[float, Status]]:
        decided = [message for message in list(self.put) if isinstance(message, Decided)]
        return [(it.at, it.command.status) for it in decided if isinstance(it.command, PutStatus)]

    def tell(self, message: Any) -> None:
        if self.holds is not None and isinstance(message, self.holds):
            self.held.append(message)
            return
        with contextlib.suppress(AttributeError, pykka.ActorDeadError):  # before its start, or after its end
            self.ref.tell(message)

    def ask(self, request: Request | GetStory) -> pykka.Future[Any]:
        reply: pykka.ThreadingFuture[Any] = pykka.ThreadingFuture()
        self.ref.tell(Ask(request, reply))
        return reply

    def create(self, name: str) -> ConnectorName:
        connector = ConnectorName(name)
        config = {"name": name, "connector.class": "ScriptedSource"}
        self.ask(PutConnector(connector, config, replace=False)).get(timeout=WITHIN_S)
        wait_until(lambda: self.said(connector) == [State.RUNNING, State.RUNNING], WITHIN_S, f"{name} to run")
        return connector

    def said(self, name: ConnectorName) -> list[State]:
        found = [self.view.statuses.connectors.get(name), *self.view.statuses.tasks.get(name, {}).values()]
        return [status.state for status in found if status is not None]

    def generation(self, name: ConnectorName) -> int:
        return self.view.statuses.connectors[name].generation

    def _make_key(self, effect: MakeSessionKey) -> None:
        key = SessionKey(b"k" * 32, "HmacSHA256", self.ticker.now_ms())
        self.config_store.tell(Decided(WriteConfig(effect.op, PutSessionKey(key)), self.pulse.beat()))

    def _failed(self, reason: str) -> None:
        self.failures.append(reason)
        self.tell(HaltRequested(reason))  # as the worker does

    def close(self) -> None:
        if self.ref.is_alive():
            self.statuses, self.kind = lambda: self.view.statuses, lambda _: "source"
            self.tell(HaltRequested("the test is over"))
            self.halted.wait(WITHIN_S)
        for ref in (self.ref, self.config_store, self.status_store):
            ref.stop(timeout=5)
        self.ticker.stop()
