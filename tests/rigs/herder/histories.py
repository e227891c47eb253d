"""Random histories of a cluster. A seed determines the cluster's settings, what users do, and what fails."""

from __future__ import annotations

import random
from collections.abc import Mapping
from itertools import permutations
from typing import Any

from actors.assignment.protocol import Protocol
from actors.assignment.weights import KEY, Weights
from actors.herder.events import HaltRequested
from actors.herder.state import connector_of
from actors.messages.correlation_ids import Epoch
from actors.messages.events import InstanceRecovered, InstanceStalled, TaskReconfigurationRequested
from actors.messages.requests import (
    DeleteConnector,
    GetConnector,
    HealthCheck,
    PutConnector,
    RestartConnectorAndTasks,
    RestartConnectorOnly,
    RestartTask,
    SetTargetState,
    StopConnectorRequest,
)
from spark_tasks.config.restart_policy import RestartPolicy
from storage.config.state import RestartRequest
from storage.ids import ConnectorName, ConnectorTaskId, ItemId, State, TargetState
from tests.rigs.herder.node import Node
from tests.rigs.herder.world import World

HEALING = ("0", "1")  # values of "v"
NAMES = ("a", "b", "c", "d")
WORKERS = 6
OPERATIONS = 40
WEIGHTS = (None, None, "2", "5", "50", "many")  # what is not a number counts as 1


def restart_policy(config: Mapping[str, str]) -> RestartPolicy:
    """A third of the configurations let failed items be restarted."""
    return RestartPolicy(failed=config.get("v") in HEALING, stalled=config.get("v") == "1", limit=3, period_ms=20_000)


def make(seed: int, *, heals: bool = True) -> World:
    """Create a cluster of three workers."""
    chance = random.Random(seed)
    calm = chance.random() < 0.3
    return World(
        3, seed=seed, protocol=list(Protocol)[seed % 3], max_delay_ms=chance.choice((0, 0, 3000, 300_000)),
        settings={"transactional_leader": chance.random() < 0.3, "unsync_backoff_ms": 20_000,
                  **({"restart_policy": restart_policy} if heals else {})},
        chances={} if calm else {"write": 0.02, "publish": 0.1, "start": 0.02},
    )


def run(seed: int, operations: int = OPERATIONS, *, heals: bool = True, weighs: bool = False) -> World:
    """A whole history, which has to end with the right assignment.

    `heals`: with failing tasks that restart, and requests with deadlines; without them, seeds have the same meaning as
    before these existed. `weighs`: connectors have weights, and half of the workers count tasks when they lead, like
    Java's.
    """
    world = make(seed, heals=heals)
    if weighs:
        world.broker.counting = {f"w{n}" for n in range(WORKERS) if (seed >> n) % 2}
    if world.random is None:
        raise ValueError("a history needs chance")
    world.settle()
    for name in NAMES[:seed % 4]:
        world.ask(world.leader, PutConnector(ConnectorName(name), {"v": "0", "tasks.max": "2"}, replace=False))
    if seed % 5:
        world.settle()
    for _ in range(operations):
        for _ in range(world.random.choice((0, 1, 3, 10, 40))):
            world.step() or world.tick()
        happen(world, world.random, heals=heals, weighs=weighs)
    calm_down(world)
    world.settle()
    world.check_at_rest()
    if heals:
        check_healed(world)
    if weighs:
        check_weighed(world)
    return world


def happen(world: World, chance: random.Random, *, heals: bool = True, weighs: bool = False) -> None:
    """One action of a user, or one failure."""
    roll = chance.random()
    if roll < 0.6:
        request(world, chance, heals=heals, weighs=weighs)
    elif roll < 0.95:
        chance.choice((*TROUBLES, fail, fail, stall) if heals else TROUBLES)(world, chance)
    else:
        world.wait(chance.choice((100, 1000, 5000, 60_000)))


def request(world: World, chance: random.Random, *, heals: bool, weighs: bool) -> None:
    """Any request, to any worker, which forwards it."""
    name = ConnectorName(chance.choice(NAMES))
    kind = chance.randrange(14)
    made: Any
    match kind:
        case 0 | 1 | 2 | 3:
            config = {"v": str(chance.randrange(5)), "tasks.max": str(chance.randrange(1, 4))}
            if weighs and (weight := chance.choice(WEIGHTS)) is not None:
                config[KEY] = weight
            state = chance.choice((None, None, None, *TargetState))
            made = PutConnector(name, config, replace=chance.random() < 0.7, initial_state=state)
        case 4:
            made = DeleteConnector(name)
        case 5 | 6:
            made = SetTargetState(name, TargetState.PAUSED)
        case 7 | 8:
            made = SetTargetState(name, TargetState.STARTED)
        case 9:
            made = StopConnectorRequest(name)
        case 10:
            made = RestartConnectorAndTasks(RestartRequest(name, chance.random() < 0.5, chance.random() < 0.7))
        case 11:
            made = RestartConnectorOnly(name)
        case 12:
            made = RestartTask(ConnectorTaskId(name, chance.randrange(3)))
        case _:
            made = chance.choice((GetConnector(name), HealthCheck()))
    node = chance.choice(world.living())
    wait_ms = chance.choice((None, None, 0, 1000, 30_000)) if heals else None
    world.post(node.name, made, None, lambda _: None, wait_ms=wait_ms)


def check_healed(world: World) -> None:
    """Nothing is FAILED that should have been restarted, and nothing was restarted too often."""
    for node in world.living():
        for instance in node.instances.values():
            config = world.config.connector_configs[connector_of(instance.item)]
            known = node.state.automatic_restarts.get(instance.item)
            if instance.state is State.FAILED and restart_policy(config).failed:
                assert known is not None, f"{instance.item}\n{world.story()}"
                assert known.outlook == "permanent", f"{instance.item}: {known}\n{world.story()}"
            assert known is None or known.next_ms is None, f"{instance.item}: {known}\n{world.story()}"
            assert known is None or len(known.recent) <= 3, f"{instance.item}: {known}\n{world.story()}"


def check_weighed(world: World) -> None:
    """A rebalance leaves tasks balanced, by weight or, if the leader counts them, by number; the next one moves
    nothing, and nothing ran twice.
    """
    if len(world.living()) == 1:
        join(world, random.Random(0))
    for name, weight in zip(NAMES, ("50", "2"), strict=False):
        config = {"v": "4", "tasks.max": "3", KEY: weight}
        world.post(world.leader, PutConnector(ConnectorName(name), config, replace=True), None, lambda _: None)
        world.settle()
    before: dict[ItemId, list[str]] = {}
    for again in range(2):
        world.living()[0].member.rejoin()
        world.settle()
        world.check_at_rest()
        if again and world.broker.protocol is not Protocol.EAGER:
            assert world.where() == before, f"moved without need\n{world.story()}"
        before = world.where()
        weights = Weights({}) if world.leader in world.broker.counting else Weights.of(world.config)
        tasks = {node.name: [item for item in node.running if isinstance(item, ConnectorTaskId)]
                 for node in world.living()}
        for one, other in permutations(tasks, 2):
            mine, theirs = weights.total(tasks[one]), weights.total(tasks[other])
            better = [task for task in tasks[one] if theirs + weights.weight(task) < mine]
            assert not better, f"{better} would do better on {other} than on {one}: {tasks}\n{world.story()}"


# ---------------------------------------------------------------- trouble
def _some(world: World, chance: random.Random) -> Node:
    return chance.choice(world.living())


def crash(world: World, chance: random.Random) -> None:
    if sum(not n.halting for n in world.living()) > 1:
        world.crash(_some(world, chance).name, noticed=chance.random() < 0.5)


def stop(world: World, chance: random.Random) -> None:
    node = _some(world, chance)
    if any(other is not node and not other.halting for other in world.living()):
        node.halting = True
        node.tell("signal", HaltRequested("SIGTERM"))


def join(world: World, chance: random.Random) -> None:
    gone = [name for name, node in world.nodes.items() if not node.alive]
    fresh = [f"w{len(world.nodes)}"] if len(world.nodes) < WORKERS else []
    if gone or fresh:
        world.add(chance.choice(gone + fresh))


def hang(world: World, chance: random.Random) -> None:
    node = _some(world, chance)
    if node.hung:
        world.resume(node.name)
    elif sum(not n.hung for n in world.living()) > 1:
        world.suspend(node.name)
        if chance.random() < 0.5:
            world.broker.remove(node.member.id)


def expire(world: World, chance: random.Random) -> None:
    missing = world.broker.missing()
    late = [n for n in world.living() if n.member.id in missing]
    if late:
        world.lose_coordinator(chance.choice(late).name, expelled=True)


def lose_coordinator(world: World, chance: random.Random) -> None:
    world.lose_coordinator(_some(world, chance).name, expelled=chance.random() < 0.5)


def hold_configs(world: World, chance: random.Random) -> None:
    store = _some(world, chance).configs
    store.held = not store.held


def stick(world: World, chance: random.Random) -> None:
    instances = [i for n in world.living() for i in n.instances.values()]
    if instances:
        chance.choice(instances).stuck = True


def fail_generate(world: World, chance: random.Random) -> None:
    world.fail_generate[chance.choice(NAMES)] = chance.randrange(1, 4)


def fail(world: World, chance: random.Random) -> None:
    found = [(n, i) for n in world.living() for i in n.instances.values() if i.state is State.RUNNING and not i.stuck]
    if found:
        node, instance = chance.choice(found)
        node.fail(instance.item, permanent=chance.random() < 0.2)


def stall(world: World, chance: random.Random) -> None:
    found = [(n, e, i) for n in world.living() for e, i in n.instances.items() if i.state in (State.RUNNING, None)]
    if found:
        node, epoch, instance = chance.choice(found)
        item, epoch_ = instance.item, Epoch(epoch)
        node.tell(("instance", epoch), InstanceStalled(item, epoch_, "hangs\nFile x, line 1", 1000))
        if chance.random() < 0.5:
            node.tell(("instance", epoch), InstanceRecovered(item, epoch_))


def reconfigure(world: World, chance: random.Random) -> None:
    found = [(n, i) for n in world.living() for i in n.instances.values() if not isinstance(i.item, ConnectorTaskId)]
    if found:
        node, instance = chance.choice(found)
        if instance.state is State.RUNNING and not instance.stuck:
            node.tell(("instance", instance.epoch), TaskReconfigurationRequested(instance.item, instance.epoch))


TROUBLES = (crash, stop, join, join, hang, hang, expire, lose_coordinator, hold_configs, hold_configs, stick,
            fail_generate, reconfigure)


def calm_down(world: World) -> None:
    """No more failures: what hangs continues, what is held back is read, what is stuck is restarted."""
    world.chances.clear()
    for node in world.living():
        node.configs.held = False
        if node.hung:
            world.resume(node.name)
        for instance in node.instances.values():
            instance.stuck = False
