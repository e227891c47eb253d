"""How long an assignment of 10,000 tasks to 100 workers takes, including its encoding.

Run: python -m tests.benchmarks.bench_assignment. The aim is under one second for each round.
"""

import sys
import time

from actors.assignment.codec import decode_assignment, encode_metadata
from actors.assignment.cooperative import AssignorState
from actors.assignment.leader import RebalancePlan, plan
from actors.assignment.protocol import Allocation, MemberMetadata, Protocol
from storage.config.state import ClusterConfigState
from storage.ids import ConnectorName

WORKERS = 100
CONNECTORS = 1000
TASKS_PER_CONNECTOR = 10


def measure(workers: int = WORKERS, connectors: int = CONNECTORS, tasks: int = TASKS_PER_CONNECTOR) -> dict[str, float]:
    """Seconds of the leader's work by round: everything new, nothing to do, a worker more, a worker less."""
    names = [ConnectorName(f"connector-{number:04d}") for number in range(connectors)]
    config = ClusterConfigState(
        offset=1, connector_configs={name: {} for name in names}, task_counts=dict.fromkeys(names, tasks)
    )
    owned = {f"connect-{number:03d}": Allocation() for number in range(workers)}
    state, seconds = AssignorState(), {}
    rounds = ("first", "idle", "joined: take", "joined: give", "left: wait", "left: give")
    for generation, name in enumerate(rounds):
        if name == "joined: take":
            owned["connect-new"] = Allocation()
        if name == "left: wait":
            del owned["connect-050"]
        members = {
            id_: encode_metadata(MemberMetadata(f"http://{id_}:8083/", 1, items), Protocol.SESSIONED)
            for id_, items in owned.items()
        }
        started = time.perf_counter()
        made: RebalancePlan = plan(
            state,
            Protocol.SESSIONED,
            members,
            config,
            leader=min(members),
            generation=generation,
            last_completed=generation - 1,
            now_ms=generation * 1000,
            max_delay_ms=1000,
        )
        seconds[name] = time.perf_counter() - started
        state = made.state
        for id_, data in made.assignments.items():
            answer = decode_assignment(data)
            owned[id_] = owned[id_].minus(answer.revoked).plus(answer.assigned)
    if sum(len(items.tasks) for items in owned.values()) != connectors * tasks:
        raise AssertionError("work was lost")
    return seconds


def main() -> None:
    """Prints one line per round."""
    for name, seconds in measure().items():
        sys.stdout.write(f"{WORKERS} workers, {CONNECTORS * TASKS_PER_CONNECTOR} tasks, {name:14} {seconds:6.3f} s\n")


if __name__ == "__main__":
    main()
