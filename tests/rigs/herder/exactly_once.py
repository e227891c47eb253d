"""A simulated cluster whose tasks are exactly-once sources: producers with epochs, and what tasks commit.

A task goes through KIP-618's start order, one step at a time, at any speed; it may be stopped without noticing. Whoever
initializes a transactional id fences all former producers. `commit` fails the test if data of an older generation of
task configs are committed after a task of a newer one has started.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from actors.assignment.protocol import Protocol
from actors.errors import ConflictError, RequestTargetError
from actors.herder import effects, events
from actors.herder.zombie_fencing import transactional_id
from actors.messages.commands import StartTask
from actors.messages.requests import FenceZombies, VerifyTaskStart
from storage.ids import ConnectorName, ConnectorTaskId
from tests.rigs.herder.node import Node
from tests.rigs.herder.world import World

MAX_COMMITS = 5  # of one task until there is `more_data`
MAX_ASKED = 5  # how often a task asks for its fencing again after a conflict


@dataclass(eq=False)
class OnceTask:
    """One instance of a task: waits to `fence`, to `init` and to `verify`, then is `run`ning, and finally `over`."""

    world: OnceWorld
    node: str
    task: ConnectorTaskId
    generation: int
    phase: str = "fence"
    epoch: int = -1
    commits: int = 0
    asked: int = 0
    asleep: bool = False

    @property
    def id(self) -> str:
        return transactional_id("g", self.task.connector, self.task.task)

    def can_step(self) -> bool:
        return not self.asleep and self.phase in ("fence", "init", "verify", "run") and self.commits < MAX_COMMITS

    def step(self) -> None:
        match self.phase:
            case "fence":
                self.phase = "asked"
                self._fence()
            case "init":
                self.epoch, self.phase = self.world.init(self.id), "verify"
            case "verify":
                self.phase = "asked"
                self.world.ask_if_alive(self.node, VerifyTaskStart(self.task, self.generation), self._answered("run"))
            case "run":
                self._commit()

    def _fence(self) -> None:
        def answered(error: Exception | None) -> None:
            if isinstance(error, RequestTargetError) and error.url:
                self.world.post(error.url, FenceZombies(self.task.connector, None), None, self._answered("init"))
            else:
                self._answered("init")(error)

        self.world.ask_if_alive(self.node, FenceZombies(self.task.connector, None, local=True), answered)

    def _answered(self, following: str) -> Callable[[Exception | None], None]:
        def then(error: Exception | None) -> None:
            self.phase = following if error is None else "over"
            if following == "init" and isinstance(error, ConflictError) and self.asked < MAX_ASKED:
                self.asked, self.phase = self.asked + 1, "fence"
            if self.phase == "run":
                self.world.started[self.task.connector] = max(
                    self.world.started[self.task.connector], self.generation)

        return then

    def _commit(self) -> None:
        if self.world.epochs[self.id] != self.epoch:
            self.phase = "over"  # fenced
            return
        self.commits += 1
        self.world.committed += 1
        newest = self.world.started[self.task.connector]
        assert self.generation >= newest, (
            f"{self.task} on {self.node} committed data of generation {self.generation} after generation {newest} had "
            f"started\n{self.world.story()}")


class OnceNode(Node):
    """A worker whose tasks are OnceTasks."""

    world: OnceWorld

    def carry_out(self, effect: Any) -> None:
        match effect:
            case effects.FenceProducers(op, _, _, ids):
                self.world.rounds.append((self, op, list(ids)))
            case effects.StartInstance(item, _, StartTask() as command):
                super().carry_out(effect)
                assert isinstance(item, ConnectorTaskId)
                self.world.sources.append(OnceTask(self.world, self.name, item, command.config_generation))
            case effects.StopInstance(item, _) | effects.AbandonInstance(item, _):
                super().carry_out(effect)
                self.world.stop_tasks(self.name, item)
            case _:
                super().carry_out(effect)


class OnceWorld(World):
    """See the module. `notice`: the probability that a stopped task notices it."""

    def __init__(self, workers: int, *, seed: int, notice: float = 0.5, chances: Any = None) -> None:
        self.epochs: dict[str, int] = defaultdict(int)
        self.sources: list[OnceTask] = []
        self.rounds: list[tuple[Node, Any, list[str]]] = []
        self.started: dict[ConnectorName, int] = defaultdict(lambda: -1)
        self.committed = 0
        self.fencing_held = False  # the broker does not answer
        self.notice = notice
        super().__init__(workers, seed=seed, protocol=Protocol.COMPATIBLE, chances=chances,
                         settings={"transactional_leader": True, "exactly_once": True})

    def add(self, name: str) -> Node:
        self.nodes[name] = OnceNode(self, name, self.settings)
        return self.nodes[name]

    def more_data(self) -> None:
        """Every living task has something to commit again."""
        self.sources = [task for task in self.sources if task.phase != "over"]
        for task in self.sources:
            task.commits = 0

    def init(self, id_: str) -> int:
        """InitProducerId."""
        self.epochs[id_] += 1
        return self.epochs[id_]

    def ask_if_alive(self, node: str, request: Any, then: Callable[[Exception | None], None]) -> None:
        """A task asks its own worker; if that is dead, so are its tasks."""
        if self.nodes[node].alive:
            self.ask(node, request, lambda reply: then(reply.error))

    def stop_tasks(self, node: str, item: Any) -> None:
        for task in self.sources:
            if task.node == node and task.task == item and (self.random is None or self.random.random() < self.notice):
                task.phase = "over"

    def crash(self, name: str, *, noticed: bool = True) -> None:
        super().crash(name, noticed=noticed)
        for task in self.sources:
            if task.node == name:
                task.phase = "over"

    def step(self) -> bool:
        """One step; tasks and zombie fencings continue even if their herder hangs."""
        own: list[Callable[[], Any]] = [task.step for task in self.sources if task.can_step()]
        own += [self._round(number) for number in range(len(self.rounds) if not self.fencing_held else 0)]
        if own and (self.random is None or self.random.random() < 0.3):
            (self.random.choice(own) if self.random else own[0])()
            return True
        if super().step():
            return True
        if own:
            own[0]()
        return bool(own)

    def _round(self, number: int) -> Callable[[], None]:
        def fence() -> None:
            node, op, ids = self.rounds[number]
            if ids:
                self.init(ids.pop())
            else:
                del self.rounds[number]
                node.tell("fencing", events.ProducersFenced(op))

        return fence
