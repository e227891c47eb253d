"""Many herder cores in one process, with no threads: one config log, one group, instances that obey.

Everything is an explicit queue of (worker, payload); a scheduler (in order, or random) decides what is delivered next.
Messages to one worker from one sender keep their order, as in the real thing.
"""

from __future__ import annotations

import random
from collections import defaultdict, deque
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from actors.assignment.protocol import Allocation, Assignment, Membership, Protocol
from actors.herder import core, effects, events
from actors.herder.signing import sign
from actors.herder.state import HerderSettings, HerderState, ItemId, Phase, RequestId
from actors.messages import (
    AllowJoin,
    ClaimWritePrivileges,
    ConfigChanged,
    ConfigOpDone,
    ConnectorStateReported,
    CoordinatorLost,
    FlushStatuses,
    Joined,
    JoinGroup,
    JoinPreparing,
    LeaveGroup,
    PutConnectorConfig,
    PutRestartRequest,
    PutSessionKey,
    PutStatus,
    PutTargetState,
    PutTaskConfigs,
    PutTaskConfigSet,
    ReadConfigToEnd,
    RemoveConnectorConfig,
    RequestRejoin,
    StatusesFlushed,
    TaskConfigsGenerated,
    TaskStateReported,
    WriteConfig,
)
from storage.config_state import (
    ClusterConfigState,
    ConnectorRemoved,
    ConnectorUpdated,
    RestartRequested,
    SessionKey,
    SessionKeyChanged,
    TargetStateChanged,
    TasksUpdated,
)
from storage.ids import ConnectorName, ConnectorTaskId, State, TargetState, WorkerId
from storage.status import Status, StatusState


def fold(state: ClusterConfigState, offset: int, write: Any) -> tuple[ClusterConfigState, tuple[Any, ...]]:
    """The meaning of one whole write, without records: enough for the herder's tests."""
    at = {"offset": offset}
    match write:
        case PutConnectorConfig(name, config, target):
            targets = {**state.target_states, **({name: target} if target else {})}
            return replace(state, connector_configs={**state.connector_configs, name: config},
                           target_states=targets, **at), (ConnectorUpdated(name),)
        case RemoveConnectorConfig(name):
            def drop(m: Mapping[Any, Any]) -> dict[Any, Any]:
                return {k: v for k, v in m.items() if k != name and getattr(k, "connector", None) != name}
            known = name in state.connector_configs
            return replace(state, connector_configs=drop(state.connector_configs),
                           target_states=drop(state.target_states), task_counts=drop(state.task_counts),
                           task_configs=drop(state.task_configs), applied_configs=drop(state.applied_configs),
                           **at), (ConnectorRemoved(name),) if known else ()
        case PutTaskConfigSet(name, configs):
            if name not in state.connector_configs:
                return replace(state, **at), ()
            tasks = {k: v for k, v in state.task_configs.items() if k.connector != name}
            ids = tuple(ConnectorTaskId(name, n) for n in range(len(configs)))
            tasks.update(zip(ids, configs, strict=True))
            return replace(state, task_counts={**state.task_counts, name: len(configs)}, task_configs=tasks,
                           applied_configs={**state.applied_configs, name: state.connector_configs[name]},
                           **at), (TasksUpdated(name, ids),)
        case PutTargetState(name, target):
            targets = {**state.target_states, name: target}
            return replace(state, target_states=targets, **at), (TargetStateChanged(name),)
        case PutRestartRequest(request):
            return replace(state, **at), (RestartRequested(request),)
        case PutSessionKey(key):
            return replace(state, session_key=key, **at), (SessionKeyChanged(key),)
    raise AssertionError(write)


@dataclass
class Node:
    """One worker: its core's state and the instances that its effects made."""

    name: str
    state: HerderState
    running: dict[ItemId, tuple[int, Any]] = field(default_factory=dict)
    read: int = 0  # how far it has read the config log
    member: bool = False
    owned: Allocation | None = None  # set while it waits in the join barrier
    timers: dict[Any, int] = field(default_factory=dict)
    alive: bool = True
    inbox: deque[Any] = field(default_factory=deque)


class World:
    """The log, the group and the nodes."""

    def __init__(self, workers: int, *, seed: int | None = None, tasks: int = 2,
                 protocol: Protocol = Protocol.SESSIONED, settings: Mapping[str, Any] | None = None) -> None:
        self.random = random.Random(seed) if seed is not None else None
        self.now = 0
        self.log: list[Any] = []
        self.statuses = StatusState()
        self.protocol = protocol
        self.generation = 0
        self.tasks = tasks
        self.settings = dict(settings or {})
        self.replies: dict[int, effects.Reply] = {}
        self.request_ids = iter(range(1, 10**9))
        self.history: list[str] = []
        self.fail_generate: dict[str, int] = defaultdict(int)
        self.last: Mapping[str, Allocation] = {}
        self.nodes: dict[str, Node] = {}
        self.leader: str | None = None
        for n in range(workers):
            self.add(f"w{n}")

    # ------------------------------------------------------------ building and driving
    def add(self, name: str) -> Node:
        settings = HerderSettings(WorkerId(name), "g", connector_type=lambda _: "source", **self.settings)
        node = Node(name, HerderState(settings))
        node.read = len(self.log)
        self.nodes[name] = node
        node.inbox.append(events.Loaded(self._snapshot(node.read)))
        return node

    def _snapshot(self, upto: int) -> ClusterConfigState:
        state = ClusterConfigState()
        for n, write in enumerate(self.log[:upto]):
            state, _ = fold(state, n + 1, write)
        return state

    def ask(self, node: str, request: Any) -> int:
        request_id = next(self.request_ids)
        self.nodes[node].inbox.append(events.RequestReceived(RequestId(request_id), request))
        return request_id

    def step(self) -> bool:
        """Deliver one message, advance the group or the clock; False where nothing is left to do."""
        busy = [n for n in self.nodes.values() if n.alive and n.inbox]
        if busy:
            node = self.random.choice(busy) if self.random else busy[0]
            self.deliver(node, node.inbox.popleft())
            return True
        if self._complete_round():
            return True
        behind = [n for n in self.nodes.values() if n.alive and n.read < len(self.log)]
        for node in behind:
            self.catch_up(node)
        if behind:
            return True
        due = [(at, key, n) for n in self.nodes.values() if n.alive for key, at in n.timers.items()
               if key[0] != "session key"]
        if not due:
            return False
        at, key, node = min(due, key=lambda d: (d[0], str(d[1])))
        self.now = max(self.now, at)
        del node.timers[key]
        self.deliver(node, events.TimerFired(key))
        return True

    def settle(self, limit: int = 20_000) -> None:
        for _ in range(limit):
            if not self.step():
                return
        raise AssertionError("no rest\n" + "\n".join(self.history[-60:]))

    def deliver(self, node: Node, payload: Any) -> None:
        event = events.Event(payload, self.now, self.statuses, "test")
        self.history.append(f"{node.name} {node.state.phase.value} <- {payload!r}"[:300])
        node.state, wanted = core.step(node.state, event)
        for effect in wanted:
            self.history.append(f"    -> {effect!r}"[:300])
            self.carry_out(node, effect)

    # ------------------------------------------------------------ effects
    def carry_out(self, node: Node, effect: Any) -> None:  # noqa: C901, PLR0912, PLR0915
        match effect:
            case effects.Reply():
                assert effect.request_id not in self.replies, "answered twice"
                self.replies[effect.request_id] = effect
            case effects.Validate(request_id, _):
                node.inbox.append(events.Validated(request_id))
            case effects.SetTimer(key, at):
                node.timers[key] = at
            case effects.CancelTimer(key):
                node.timers.pop(key, None)
            case WriteConfig(op, write):
                self.log.append(write)
                self.catch_up(node)
                node.inbox.append(ConfigOpDone(op))
                self.spread()
            case effects.MakeSessionKey(op):
                self.log.append(PutSessionKey(SessionKey(b"k", "HmacSHA256", self.now)))
                self.catch_up(node)
                node.inbox.append(ConfigOpDone(op))
                self.spread()
            case ReadConfigToEnd(op, _):
                self.catch_up(node)
                node.inbox.append(ConfigOpDone(op))
            case ClaimWritePrivileges(op):
                node.inbox.append(ConfigOpDone(op))
            case effects.StartInstance(item, epoch, command):
                assert item not in node.running, f"{item} runs already on {node.name}"
                node.running[item] = (epoch, command)
                state = {TargetState.STARTED: State.RUNNING, TargetState.PAUSED: State.PAUSED,
                         TargetState.STOPPED: State.STOPPED}[command.target_state]
                node.inbox.append(self.report(item, epoch, state))
            case effects.StopInstance(item, epoch):
                node.running.pop(item, None)
                node.inbox.append(self.report(item, epoch, State.UNASSIGNED, gone=True))
            case effects.AbandonInstance(item, _):
                node.running.pop(item, None)
            case effects.ChangeInstance(item, epoch, target):
                state = {TargetState.STARTED: State.RUNNING, TargetState.PAUSED: State.PAUSED,
                         TargetState.STOPPED: State.STOPPED}[target]
                node.inbox.append(self.report(item, epoch, state))
            case effects.AskTaskConfigs(connector, epoch, op):
                if self.fail_generate[connector] > 0:
                    self.fail_generate[connector] -= 1
                    node.inbox.append(TaskConfigsGenerated(connector, epoch, op, (), ValueError("no")))
                else:
                    config = node.running[connector][1].config
                    count = int(config.get("tasks.max", self.tasks))
                    configs = tuple({"n": str(n), "v": config.get("v", "")} for n in range(count))
                    node.inbox.append(TaskConfigsGenerated(connector, epoch, op, configs))
            case effects.SendTaskConfigs(op, url, connector, configs, key):
                target = self.nodes.get(url)
                if target is None or not target.alive:
                    node.inbox.append(events.TaskConfigsPublished(op, ConnectionError("down")))
                else:
                    request_id = self.ask(url, PutTaskConfigs(connector, configs, key and sign(key, key.algorithm, b"body")))
                    self.forwarded = getattr(self, "forwarded", {})
                    self.forwarded[request_id] = (node, op)
            case PutStatus(status, safe):
                self.put_status(status, safe)
            case (effects.ForgetTopics() | effects.Log() | effects.SetLoggerLevel() | effects.Halted()
                  | effects.Delegate()):
                pass
            case FlushStatuses(op):
                node.inbox.append(StatusesFlushed(op))
            case JoinGroup() | RequestRejoin():
                node.member = True
                self.start_round()
            case AllowJoin(owned):
                node.owned = owned
            case LeaveGroup():
                node.member, node.owned = False, None
                self.start_round()
            case _:
                raise AssertionError(effect)
        for request_id, (asker, op) in list(getattr(self, "forwarded", {}).items()):
            if request_id in self.replies:
                del self.forwarded[request_id]
                asker.inbox.append(events.TaskConfigsPublished(op, self.replies[request_id].error))

    @staticmethod
    def report(item: ItemId, epoch: int, state: State, *, gone: bool = False) -> Any:
        if isinstance(item, ConnectorTaskId):
            return TaskStateReported(item, epoch, state, stopped_for_good=gone)
        return ConnectorStateReported(ConnectorName(item), epoch, state, stopped_for_good=gone)

    def catch_up(self, node: Node) -> None:
        for n in range(node.read, len(self.log)):
            before = self._snapshot(n)
            snapshot, changes = fold(before, n + 1, self.log[n])
            node.inbox.append(ConfigChanged(snapshot, changes))
        node.read = len(self.log)

    def spread(self) -> None:
        for node in self.nodes.values():
            if node.alive and (self.random is None or self.random.random() < 0.7):
                self.catch_up(node)

    def put_status(self, status: Status, safe: bool) -> None:
        task = isinstance(status.id, ConnectorTaskId)
        name = status.id.connector if isinstance(status.id, ConnectorTaskId) else status.id
        tasks = dict(self.statuses.tasks.get(name, {}))
        connectors = dict(self.statuses.connectors)
        old = tasks.get(status.id.task) if isinstance(status.id, ConnectorTaskId) else connectors.get(name)
        if safe and old and old.worker_id != status.worker_id and old.generation > status.generation:
            return
        if status.state is State.DESTROYED:
            if task:
                tasks.pop(status.id.task, None)
            else:
                connectors.pop(name, None)
        elif task:
            tasks[status.id.task] = status
        else:
            connectors[name] = status
        self.statuses = replace(self.statuses, connectors=connectors, tasks={**self.statuses.tasks, name: tasks})

    # ------------------------------------------------------------ the group
    def start_round(self) -> None:
        """Ask every member that is not in the barrier yet to prepare."""
        for node in self.nodes.values():
            waiting = any(isinstance(m, JoinPreparing) for m in node.inbox) or node.state.join_waiting
            if node.alive and node.member and node.owned is None and not waiting:
                node.inbox.append(JoinPreparing(eager=self.protocol is Protocol.EAGER))

    def _complete_round(self) -> bool:
        members = {n.name: n for n in self.nodes.values() if n.alive and n.member}
        if not members or any(n.owned is None for n in members.values()):
            return False
        self.generation += 1
        leader = self.leader if self.leader in members else min(members)
        self.leader = leader
        for node in members.values():
            self.catch_up_silently(node)
        config = self._snapshot(members[leader].read)
        offset = max(n.read for n in members.values()) or -1
        shares = self.share(config, {k: n.owned or Allocation() for k, n in members.items()})
        for name, node in members.items():
            owned = node.owned or Allocation()
            eager = self.protocol is Protocol.EAGER
            assigned = shares[name] if eager else shares[name].minus(owned)
            revoked = Allocation() if eager else owned.minus(shares[name])
            assignment = Assignment(leader, leader, offset, assigned, revoked)
            node.owned = None
            owners = tuple((i, w) for w, s in shares.items() for i in (*s.connectors, *s.tasks))
            node.inbox.append(Joined(Membership(self.generation, name, self.protocol, assignment,
                                                owners if name == leader else ())))
        return True

    def catch_up_silently(self, node: Node) -> None:
        if self.random is None or self.random.random() < 0.8:
            self.catch_up(node)

    def share(self, config: ClusterConfigState, owned: Mapping[str, Allocation]) -> dict[str, Allocation]:
        """Sticky and balanced; what another member still owns is handed out in a later round."""
        result: dict[str, list[list[Any]]] = {k: [[], []] for k in owned}
        everything = [config.connectors(), [t for c in config.connectors() for t in config.tasks(c)]]
        for kind in (0, 1):
            both = {k: (o.connectors, o.tasks)[kind] for k, o in owned.items()}
            have = {k: [i for i in items if i in everything[kind]] for k, items in both.items()}
            limit = -(-len(everything[kind]) // len(owned)) if owned else 0
            kept: set[Any] = set()
            for k in sorted(have):
                keep = [i for i in have[k] if i not in kept][:limit]
                result[k][kind] = keep
                kept |= set(keep)
            held = {i for h in have.values() for i in h}
            for item in everything[kind]:
                if item not in held:
                    least = min(sorted(result), key=lambda k: len(result[k][kind]))
                    result[least][kind].append(item)
        return {k: Allocation(tuple(sorted(c)), tuple(sorted(t))) for k, (c, t) in result.items()}

    # ------------------------------------------------------------ trouble
    def crash(self, name: str) -> None:
        node = self.nodes[name]
        node.alive = node.member = False
        node.running.clear()
        node.inbox.clear()
        node.owned = None
        self.start_round()

    def lose_coordinator(self, name: str) -> None:
        node = self.nodes[name]
        node.owned = None
        node.inbox.append(CoordinatorLost("test"))
        self.start_round()

    # ------------------------------------------------------------ looking
    def where(self) -> dict[ItemId, list[str]]:
        found: dict[ItemId, list[str]] = defaultdict(list)
        for node in self.nodes.values():
            for item in node.running:
                found[item].append(node.name)
        return dict(found)

    def check_at_rest(self) -> None:
        """Everything that is configured runs exactly once, with the newest config; nothing else runs."""
        config = self._snapshot(len(self.log))
        wanted = {*config.connectors(), *(t for c in config.connectors() for t in config.tasks(c))}
        where = self.where()
        story = "\n".join(self.history[-150:])
        assert set(where) == wanted, f"{set(where) ^ wanted}\n{story}"
        assert all(len(w) == 1 for w in where.values()), f"{where}\n{story}"
        for node in self.nodes.values():
            if node.alive:
                assert node.state.phase in (Phase.RESOLVED, Phase.HALTED), f"{node.name} {node.state.phase}\n{story}"
                assert node.state.busy is None
                assert not node.state.queue, story
            for item, (_, command) in node.running.items():
                if isinstance(item, ConnectorTaskId):
                    assert command.task_config == config.task_configs[item], f"{item}\n{story}"
                else:
                    assert command.config == config.connector_configs[item], f"{item}\n{story}"
