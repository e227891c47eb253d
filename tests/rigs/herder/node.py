"""One simulated worker: its herder core, its stores and its member, and instances that obey when it is their turn.

Messages to the core wait in channels, one for each sender, so that only messages of the same sender keep their order.
"""

from __future__ import annotations

import random
import re
from collections import defaultdict, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from actors.herder import core, effects, events
from actors.herder.request_signatures import sign
from actors.herder.state import HerderSettings, HerderState
from actors.herder.story import RecordedStep
from actors.messages.commands import (
    AllowJoin,
    ClaimWritePrivileges,
    FlushStatuses,
    JoinGroup,
    LeaveGroup,
    PutSessionKey,
    PutStatus,
    ReadConfigToEnd,
    ReadStatuses,
    RequestRejoin,
    StartConnector,
    StartTask,
    WriteConfig,
)
from actors.messages.correlation_ids import OpId
from actors.messages.events import (
    ConnectorStateReported,
    StatusesFlushed,
    StatusesRead,
    TaskConfigsGenerated,
    TaskStateReported,
)
from actors.messages.requests import PutTaskConfigs
from spark_tasks.errors import ConnectError
from storage.config.state import SessionKey
from storage.ids import ConnectorName, ConnectorTaskId, ItemId, State, TargetState, WorkerId
from tests.rigs.herder.group import Member
from tests.rigs.herder.invariants import violations
from tests.rigs.herder.logs import ConfigStore, StatusStore

if TYPE_CHECKING:
    from tests.rigs.herder.world import World

STATES = {TargetState.STARTED: State.RUNNING, TargetState.PAUSED: State.PAUSED, TargetState.STOPPED: State.STOPPED}


@dataclass
class Instance:
    """An actor of a connector or task; `stuck`: it no longer responds."""

    item: ItemId
    epoch: int
    command: StartConnector | StartTask
    orders: deque[Any] = field(default_factory=deque)
    state: State | None = None
    stuck: bool = False


class Node:
    """One worker process."""

    def __init__(self, world: World, name: str, settings: Mapping[str, Any]) -> None:
        self.world = world
        self.name = name
        given = {"connector_type": lambda _: "source", **settings}
        transactional = given.pop("transactional_leader", False)  # exactly.once.source.support is preparing or enabled
        self.state = HerderState(HerderSettings(WorkerId(name), "g", **given))
        self.channels: dict[Any, deque[Any]] = defaultdict(deque)
        self.instances: dict[int, Instance] = {}
        self.timers: dict[Any, int] = {}
        self.alive = True
        self.hung = False
        self.halting = False
        self.configs = ConfigStore(world.log, self.to("config"), name, transactional=transactional)
        self.statuses = StatusStore(world.status_log, lambda op: self.tell("status", StatusesFlushed(op)),
                                    lambda op: self.tell("status", StatusesRead(op)))
        self.member = Member(name, world.broker, self.to("member"), lambda: self.configs.snapshot)
        self.tell("config", events.Loaded(self.configs.snapshot))

    # ------------------------------------------------------------ messages
    def tell(self, sender: Any, payload: Any) -> None:
        """Put a message into the herder's inbox."""
        self.channels[sender].append(payload)

    def to(self, sender: Any) -> Callable[[Any], None]:
        return lambda payload: self.tell(sender, payload)

    def drain(self, sender: Any) -> None:
        """Deliver all messages of one sender."""
        while self.alive and not self.hung and self.channels[sender]:
            self.deliver(self.channels[sender].popleft())

    def deliver(self, payload: Any) -> None:
        """One step of the core, and its effects."""
        event = events.Event(payload, self.world.now, self.statuses.snapshot, "test")
        self.state, wanted = core.step(self.state, event)
        self.world.remember(self, RecordedStep(event, wanted))
        wrong = violations(self.state)
        assert not wrong, f"{self.name}: {wrong}\n{self.world.story()}"
        for effect in wanted:
            self.carry_out(effect)

    def actions(self) -> list[Callable[[], Any]]:
        """Everything that can happen here now, other than the passing of time."""
        if not self.alive or self.hung:
            return []
        found: list[Callable[[], Any]] = [self._next(queue) for queue in self.channels.values() if queue]
        found += [self._turn(i) for i in self.instances.values() if i.orders and not i.stuck]
        found += [self._fire(key) for key, at in self.timers.items() if at <= self.world.now]
        found += [self._send(op) for op in self.configs.sendable()]
        deadline = self.configs.next_deadline()
        if deadline is not None and deadline <= self.world.now:
            found.append(lambda: self.configs.time_out(self.world.now))
        if self.configs.readable():
            found.append(lambda: self.configs.advance(self.world.some()))
        if self.statuses.readable():
            found.append(lambda: self.statuses.advance(self.world.some()))
        if self.statuses.sendable():
            found.append(self.statuses.send)
        if self.member.can_step():
            found.append(self.member.step)
        return found

    def due(self) -> list[int]:
        """The times at which something happens by itself."""
        if not self.alive or self.hung:
            return []
        at = [at for key, at in self.timers.items() if key[0] != "session key"]
        deadline = self.configs.next_deadline()
        return [*at, deadline] if deadline is not None else at

    def _next(self, queue: deque[Any]) -> Callable[[], None]:
        return lambda: self.deliver(queue.popleft())

    def _fire(self, key: Any) -> Callable[[], None]:
        def fire() -> None:
            del self.timers[key]
            self.deliver(events.TimerFired(key))

        return fire

    def _send(self, op: Any) -> Callable[[], None]:
        def send() -> None:
            match self.world.trouble("write", 0.5):
                case None:
                    self.configs.send(op)
                case chance if chance < 0.25:
                    self.configs.send(op, ConnectError("no leader for the partition"))
                case _:
                    self.configs.answered_late(op)

        return send

    # ------------------------------------------------------------ instances
    @property
    def running(self) -> dict[ItemId, tuple[int, Any]]:
        """What runs here, with epoch and start command."""
        return {i.item: (i.epoch, i.command) for i in self.instances.values()}

    def _turn(self, instance: Instance) -> Callable[[], None]:
        return lambda: self._obey(instance, instance.orders.popleft())

    def _obey(self, instance: Instance, order: Any) -> None:
        item, epoch = instance.item, instance.epoch
        match order:
            case State.UNASSIGNED:
                del self.instances[epoch]
                self.report(item, epoch, State.UNASSIGNED, gone=True)
            case State():
                if instance.state is State.FAILED and order is not State.STOPPED:
                    return
                failed = instance.state is None and self.world.trouble("start", 1.0) is not None
                instance.state = State.FAILED if failed else order
                self.report(item, epoch, instance.state)
            case int():
                self._make_task_configs(instance, OpId(order))

    def _make_task_configs(self, instance: Instance, op: OpId) -> None:
        assert isinstance(instance.command, StartConnector)
        name, config = instance.command.connector, instance.command.config
        answer = TaskConfigsGenerated(name, instance.epoch, op, (), ConnectError("does not run"))
        if self.world.fail_generate[name] > 0:
            self.world.fail_generate[name] -= 1
        elif instance.state is State.RUNNING:
            count = self.tasks_of(config)
            made = tuple({"n": str(n), "v": config.get("v", "")} for n in range(count))
            answer = TaskConfigsGenerated(name, instance.epoch, op, made)
        self.tell(("instance", instance.epoch), answer)

    def tasks_of(self, config: Mapping[str, str]) -> int:
        """The number of tasks in the configuration; one if that is invalid."""
        said = str(config.get("tasks.max", self.world.tasks))
        return int(said) if re.fullmatch("[0-9]{1,2}", said) else 1

    def report(self, item: ItemId, epoch: int, state: State, *, gone: bool = False, permanent: bool = False) -> None:
        kind: Any = TaskStateReported if isinstance(item, ConnectorTaskId) else ConnectorStateReported
        trace = "OSError: the database is away\nTraceback ..." if state is State.FAILED else None
        self.tell(("instance", epoch), kind(item, epoch, state, trace, stopped_for_good=gone, permanent=permanent))

    def fail(self, item: ItemId, *, permanent: bool = False) -> None:
        """What runs here fails."""
        epoch, instance = next((e, i) for e, i in self.instances.items() if i.item == item)
        instance.state = State.FAILED
        self.report(item, epoch, State.FAILED, permanent=permanent)

    def _order(self, epoch: int, order: Any) -> bool:
        if epoch in self.instances:
            self.instances[epoch].orders.append(order)
        return epoch in self.instances

    # ------------------------------------------------------------ effects
    def carry_out(self, effect: Any) -> None:
        match effect:
            case effects.Reply():
                self.world.replied(effect)
            case effects.Validate(request_id, _):
                self.tell(("validation", request_id), events.Validated(request_id))
            case effects.SetTimer(key, at):
                self.timers[key] = at
            case effects.CancelTimer(key):
                self.timers.pop(key, None)
            case effects.EndWorker():
                self.alive = False
                self.world.disconnect(self)
            case effects.ForgetTopics() | effects.Log() | effects.SetLoggerLevel() | effects.Delegate():
                pass
            case (effects.StartInstance() | effects.StopInstance() | effects.AbandonInstance()
                  | effects.ChangeInstance()):
                self._instance(effect)
            case effects.AskTaskConfigs() | effects.SendTaskConfigs():
                self._task_configs(effect)
            case _:
                self._below(effect)

    def _instance(self, effect: Any) -> None:
        match effect:
            case effects.StartInstance(item, epoch, command):
                assert item not in self.running, f"{item} runs already on {self.name}\n{self.world.story()}"
                self.instances[epoch] = Instance(item, epoch, command, deque([STATES[command.target_state]]))
            case effects.StopInstance(item, epoch):
                if not self._order(epoch, State.UNASSIGNED):
                    self.report(item, epoch, State.UNASSIGNED, gone=True)
            case effects.AbandonInstance(_, epoch):
                self.instances.pop(epoch, None)
            case effects.ChangeInstance(_, epoch, target):
                self._order(epoch, STATES[target])

    def _task_configs(self, effect: Any) -> None:
        match effect:
            case effects.AskTaskConfigs(connector, epoch, op):
                if not self._order(epoch, op):
                    error = ConnectError("the connector is not running")
                    self.tell(("instance", epoch), TaskConfigsGenerated(ConnectorName(connector), epoch, op, (), error))
            case effects.SendTaskConfigs(op, url, connector, configs, key):
                signature = key and sign(key, self.state.settings.key_algorithm, b"body")
                error = ConnectError("lost") if self.world.trouble("publish", 1.0) is not None else None
                self.world.post(url, PutTaskConfigs(connector, configs, signature), error,
                                lambda error: self.tell("leader", events.TaskConfigsPublished(op, error)))

    def _below(self, effect: Any) -> None:
        now, member = self.world.now, self.member
        match effect:
            case WriteConfig(op, write):
                self.configs.write(op, write, now)
            case effects.MakeSessionKey(op):
                wanted = self.state.settings
                key = SessionKey(str(now).encode().ljust(wanted.key_bytes), wanted.key_algorithm, now)
                self.configs.write(op, PutSessionKey(key), now)
            case ReadConfigToEnd(op, timeout_ms):
                self.configs.read_to_end(op, timeout_ms, now)
                self.configs.advance(0)
            case ClaimWritePrivileges(op):
                self.configs.claim(op)
            case PutStatus(status, safe):
                self.statuses.put(status, safe=safe)
            case FlushStatuses(op):
                self.statuses.flush(op)
            case ReadStatuses(op):
                self.statuses.read_to_end(op)
            case JoinGroup():
                member.join()
            case RequestRejoin(_, caught_up):
                member.rejoin(caught_up)
            case AllowJoin(owned):
                extra = set(self.running) - set(owned.items)
                assert not extra, f"{self.name} may join and still runs {extra}\n{self.world.story()}"
                member.allow(owned)
            case LeaveGroup():
                member.leave()
            case _:
                raise AssertionError(effect)


def pick(chance: random.Random | None, some: list[Any]) -> Any:
    """A random one, or the first if nothing is random."""
    return chance.choice(some) if chance else some[0]
