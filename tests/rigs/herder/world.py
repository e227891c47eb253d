"""Many herder cores in one process, without threads: real records of topics, real assignors, a broker's group.

A scheduler (in order, or random) takes one step after another: deliver one message, read some records, let one instance
obey, answer one request of the group, let time pass. `settle` continues until nothing can happen any more.
"""

from __future__ import annotations

import random
from collections import defaultdict, deque
from collections.abc import Callable, Collection, Mapping
from typing import Any

from actors.assignment.protocol import Protocol
from actors.errors import ConflictError, RequestTargetError
from actors.herder import effects, events
from actors.herder.standing import Phase
from actors.herder.story import RecordedStep
from actors.messages.commands import StartTask
from actors.messages.correlation_ids import RequestId
from spark_tasks.errors import ConnectError
from storage.config.state import ClusterConfigState
from storage.ids import ConnectorTaskId, ItemId, State, TargetState
from storage.status.state import Status, StatusState
from tests.rigs.herder.group import Broker
from tests.rigs.herder.logs import ConfigLog, StatusLog
from tests.rigs.herder.node import STATES, Node, pick

Reply = effects.Reply


class World:
    """A cluster. `chances`: the probability of each kind of failure."""

    def __init__(self, workers: int, *, seed: int | None = None, tasks: int = 2,
                 protocol: Protocol = Protocol.SESSIONED, max_delay_ms: int = 0,
                 settings: Mapping[str, Any] | None = None, chances: Mapping[str, float] | None = None) -> None:
        self.random = random.Random(seed) if seed is not None else None
        self.now = 0
        self.log = ConfigLog()
        self.status_log = StatusLog()
        self.broker = Broker(protocol, max_delay_ms, lambda: self.now)
        self.tasks = tasks
        self.settings = {"scheduled_delay_max_ms": max_delay_ms, **(settings or {})}
        self.chances = dict(chances or {})
        self.replies: dict[int, Reply] = {}
        self.asked: dict[int, Node] = {}
        self.fail_generate: dict[str, int] = defaultdict(int)
        self.nodes: dict[str, Node] = {}
        self.steps = 0  # of all cores
        self._request_ids = iter(range(1, 10**9))
        self._listeners: dict[int, Callable[[Reply], None]] = {}
        self._history: deque[tuple[str, Any]] = deque(maxlen=400)
        for n in range(workers):
            self.add(f"w{n}")

    # ------------------------------------------------------------ building and asking
    def add(self, name: str) -> Node:
        """Start a worker, perhaps again."""
        self.nodes[name] = Node(self, name, self.settings)
        return self.nodes[name]

    @property
    def leader(self) -> str:
        """The worker that leads the group, otherwise any one."""
        led = [n.name for n in self.living() if n.member.id is not None and n.member.id == self.broker.leader]
        return led[0] if led else self.living()[0].name

    def living(self) -> list[Node]:
        return [n for n in self.nodes.values() if n.alive]

    def ask(self, node: str, request: Any, then: Callable[[Reply], None] | None = None, *,
            wait_ms: int | None = None) -> int:
        """Send a request to one worker; the response will be in `replies`.

        `wait_ms`: how long it may wait for the group to settle.
        """
        number = next(self._request_ids)
        self.asked[number] = self.nodes[node]
        if then is not None:
            self._listeners[number] = then
        self.nodes[node].tell(("request", number % 3), events.RequestReceived(RequestId(number), request, wait_ms))
        return number

    def replied(self, reply: Reply) -> None:
        """A core responds to a request."""
        assert reply.request_id not in self.replies, f"answered twice: {reply}\n{self.story()}"
        self.replies[reply.request_id] = reply
        if reply.request_id in self._listeners:
            self._listeners.pop(reply.request_id)(reply)

    def post(self, url: str, request: Any, error: Exception | None, then: Callable[[Exception | None], None],
             hops: int = 2, wait_ms: int | None = None) -> None:
        """Send a request like REST: the worker responds, or names another worker, at most `hops` times."""
        node = self.nodes.get(url.removeprefix("http://").rstrip("/"))
        if node is None or not node.alive or error is not None:
            then(error or ConnectError("connection refused"))
            return

        def answered(reply: Reply) -> None:
            other = reply.error
            if isinstance(other, RequestTargetError) and other.url and hops:
                self.post(other.url, request, None, then, hops - 1, wait_ms)
            else:
                then(ConflictError("conflict") if isinstance(other, RequestTargetError) else other)

        self.ask(node.name, request, answered, wait_ms=wait_ms)

    # ------------------------------------------------------------ scheduling
    def trouble(self, kind: str, share: float) -> float | None:
        """Whether this fails now: None, or a number below `share` to choose between ways of failing."""
        chance = self.chances.get(kind, 0.0)
        if self.random is None or self.random.random() >= chance:
            return None
        return self.random.random() * share

    def some(self) -> int:
        """How many records one read returns."""
        return self.random.choice((1, 1, 2, 5, 100)) if self.random else 1000

    def step(self) -> bool:
        """One possible step; False if nothing can happen before time passes."""
        nodes = [n for n in self.nodes.values() if n.alive and not n.hung]
        if self.random is not None:
            self.random.shuffle(nodes)
        for node in nodes:
            actions = node.actions()
            if actions:
                pick(self.random, actions)()
                self._check_the_running()
                return True
        return False

    def tick(self, until: int | None = None) -> bool:
        """Let time pass until something is due; False if nothing ever will be (by `until`)."""
        due = [at for node in self.nodes.values() for at in node.due() if until is None or at <= until]
        if not due:
            return False
        self.now = max(self.now, min(due))
        return True

    def wait(self, ms: int) -> None:
        """Let time pass, in which records in flight reach the status topic."""
        for node in self.nodes.values():
            while node.alive and not node.hung and node.statuses.sendable():
                node.statuses.send()
        for node in self.nodes.values():
            if node.alive and not node.hung:
                node.statuses.advance(len(self.status_log))
        self.now += ms

    def settle(self, limit: int = 50_000, *, within_ms: int | None = None) -> None:
        """Continue until nothing can happen any more (within that time)."""
        until = None if within_ms is None else self.now + within_ms
        for _ in range(limit):
            if not self.step() and not self._expire_the_dead() and not self.tick(until):
                return
        raise AssertionError(f"no rest\n{self.story()}")

    def _expire_the_dead(self) -> bool:
        """If nothing else can happen: sessions of dead and hanging workers expire, and rebalances end without them."""
        living = {n.member.id for n in self.nodes.values() if n.alive and not n.hung}
        gone = [id_ for id_ in self.broker.members if id_ not in living and id_ not in self.broker.intruders]
        for id_ in gone:
            self.broker.remove(id_)
        return bool(gone)

    # ------------------------------------------------------------ trouble
    def crash(self, name: str, *, noticed: bool = True) -> None:
        """kill -9, which is noticed: its session expires at once."""
        node = self.nodes[name]
        node.alive = False
        node.instances.clear()
        self.disconnect(node)
        if noticed:
            self.broker.remove(node.member.id)

    def disconnect(self, node: Node) -> None:
        """Whoever waits for a response of this worker sees the connection end."""
        for number in [n for n, asked in self.asked.items() if asked is node and n in self._listeners]:
            self._listeners.pop(number)(Reply(RequestId(number), error=ConnectError("connection reset")))

    def lose_coordinator(self, name: str, *, expelled: bool = False) -> None:
        """The worker cannot reach the coordinator for a while; expelled: so long that its session expires.

        Sessions are longer than any operation, so its messages have arrived, and the herder learns of the loss before
        others run its work.
        """
        node = self.nodes[name]
        while expelled and not node.hung and node.statuses.sendable():
            node.statuses.send()
        if expelled:
            self.broker.remove(node.member.id)
        node.member.lose("test", forget=False)
        node.drain("member")

    def suspend(self, name: str) -> None:
        """SIGSTOP."""
        self.nodes[name].hung = True

    def resume(self, name: str) -> None:
        """SIGCONT after the session has passed; this is the first that the herder notices."""
        node = self.nodes[name]
        node.hung = False
        node.statuses.expire()
        node.deliver(events.Suspended(60_000))

    def restart_broker(self, *, forgets: bool, seen_by: Collection[str] = ()) -> None:
        """Rebalances in progress are aborted.

        It forgets the group, or has read who is a member; `seen_by`: workers that were without a coordinator for so
        long that they have stopped their work.
        """
        self.broker.restart(forgets=forgets)
        for node in self.living():
            if node.name in seen_by and not node.hung:
                self.lose_coordinator(node.name)

    # ------------------------------------------------------------ looking
    def remember(self, node: Node, recorded: RecordedStep) -> None:
        """Add an entry to the story."""
        self.steps += 1
        self._history.append((f"{node.name} {node.state.phase.value}", recorded))

    def story(self, last: int = 400) -> str:
        """What happened lately."""
        story = list(self._history)[-last:]
        return "\n".join(f"[{who}] " + "\n".join(recorded.lines()) for who, recorded in story)

    @property
    def statuses(self) -> StatusState:
        """The content of the status topic."""
        return self.status_log.view()

    @property
    def config(self) -> ClusterConfigState:
        """The content of the config topic."""
        return self.log.view()

    def where(self) -> dict[ItemId, list[str]]:
        """The workers on which each item runs."""
        found: dict[ItemId, list[str]] = defaultdict(list)
        for node in self.nodes.values():
            for item in node.running:
                found[item].append(node.name)
        return dict(found)

    def check_all_runs(self) -> None:
        """Everything that is configured runs once, and no status claims more than what runs."""
        story = _Story(self)
        config, where = self.config, self.where()
        started = [c for c in config.connectors() if config.target_state(c) is not TargetState.STOPPED]
        wanted = {*config.connectors(), *(t for c in started for t in config.tasks(c))}
        assert set(where) == wanted, f"{set(where) ^ wanted}\n{story}"
        assert all(len(w) == 1 for w in where.values()), f"{where}\n{story}"
        self.check_statuses()

    def check_statuses(self) -> None:
        """Statuses say RUNNING only about what that worker runs."""
        where = self.where()
        for item, status in self.said().items():
            if status.state is State.RUNNING:
                assert status.worker_id in where.get(item, ()), f"{status}, but {where.get(item)}\n{self.story()}"

    def said(self) -> dict[ItemId, Status]:
        """The statuses of connectors and tasks in the status topic."""
        tasks = {ConnectorTaskId(c, n): s for c, some in self.statuses.tasks.items() for n, s in some.items()}
        return {**self.statuses.connectors, **tasks}

    def _check_the_running(self) -> None:
        """No two settled members of one generation run the same item."""
        seen: dict[Any, str] = {}
        for node in self.nodes.values():
            membership = node.state.membership
            if not node.alive or node.hung or membership is None or node.state.phase is not Phase.RESOLVED:
                continue
            for item in node.instances.values():
                other = seen.setdefault((membership.generation, item.item), node.name)
                assert other == node.name, f"{item.item} runs on {other} and {node.name}\n{self.story()}"

    def check_at_rest(self) -> None:
        """Everything that is configured runs exactly once, with the newest config; nothing else runs; all statuses are
        written.
        """
        self.check_all_runs()
        story, config, where = _Story(self), self.config, self.where()
        for node in self.living():
            assert node.state.phase is Phase.RESOLVED, f"{node.name} is {node.state.phase}\n{story}"
            assert node.state.busy is None, story
            assert not node.state.queue, f"{node.name}: {node.state.queue}\n{story}"
            assert not node.state.ops, f"{node.name}: {node.state.ops}\n{story}"
            assert not node.state.validating, story
            assert node.state.generation == self.broker.generation, f"{node.name}\n{story}"
        open_ = [n for n, node in self.asked.items() if n not in self.replies and self.nodes[node.name] is node
                 and node.alive]
        assert not open_, f"not answered: {open_}\n{story}"
        self._check_configs(config, story)
        self._check_statuses(config, where, story)

    def _check_configs(self, config: ClusterConfigState, story: object) -> None:
        failed = {i.item for n in self.living() for i in n.instances.values() if i.state is State.FAILED}
        for node in self.living():
            for item, (_, command) in node.running.items():
                if not isinstance(command, StartTask):
                    assert command.config == config.connector_configs[command.connector], f"{item}\n{story}"
                    continue
                assert command.task_config == config.task_configs[command.task], f"{item}\n{story}"
        for name in config.connectors():
            wanted = int(config.connector_configs[name].get("tasks.max", self.tasks))
            target = config.target_state(name)
            if target is TargetState.STOPPED:
                assert config.task_count(name) == 0, f"{name} is STOPPED and has tasks\n{story}"
            elif target is TargetState.STARTED and name not in failed:
                assert config.task_count(name) == wanted, f"{name} has not {wanted} tasks\n{story}"
                value = config.connector_configs[name].get("v", "")
                assert {c["v"] for c in config.raw_task_configs(name)} == {value}, f"{name}: old task configs\n{story}"

    def _check_statuses(self, config: ClusterConfigState, where: Mapping[ItemId, list[str]], story: object) -> None:
        said = self.said()
        states = {i.item: i.state for n in self.living() for i in n.instances.values()}
        # As in Kafka Connect, the tasks of a paused connector wait for it to be resumed where two leaders' task configs
        # were mixed up: it alone can make others.
        waiting = {item for item, status in said.items() if isinstance(item, ConnectorTaskId)
                   and status.state is State.UNASSIGNED and item.connector in config.inconsistent
                   and config.target_state(item.connector) is TargetState.PAUSED}
        assert set(said) - waiting == set(where), f"statuses {set(said) ^ set(where)}\n{story}"
        for item, status in ((item, said[item]) for item in where):
            name = item.connector if isinstance(item, ConnectorTaskId) else item
            failed = states[item] is State.FAILED
            state = State.FAILED if failed else STATES[config.target_state(name) or TargetState.STARTED]
            assert status.state is state, f"{item} is said to be {status.state}, wanted {state}\n{story}"
            assert status.worker_id == where[item][0], f"{item}: {status}\n{story}"


class _Story:
    """The story in readable form, because it is long."""

    def __init__(self, world: World) -> None:
        self._world = world

    def __str__(self) -> str:
        return self._world.story()
