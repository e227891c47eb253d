"""Simulated groups whose work the cooperative assignor distributes."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import combinations

from hypothesis import strategies as st

from actors.assignment.cooperative import AssignorState, assign
from actors.assignment.protocol import Allocation, Assignment, MemberMetadata
from storage.config.state import ClusterConfigState
from storage.ids import ConnectorTaskId

NAMES = "abcdefgh"


@dataclass
class Worker:
    url: str
    owned: Allocation = field(default_factory=Allocation)
    offset: int = 0
    assignor: AssignorState = field(default_factory=AssignorState)
    last_completed: int = -1


@dataclass
class Group:
    """Workers, a broker that elects the oldest member, and a config topic; every rebalance checks the invariants."""

    max_delay_ms: int
    now_ms: int = 1_000
    generation: int = 0
    joined: int = 0
    config: ClusterConfigState = field(default_factory=lambda: ClusterConfigState(offset=0))
    workers: dict[str, Worker] = field(default_factory=dict)
    hung: list[Worker] = field(default_factory=list)
    delay_ms: int = 0
    patience: int = 12  # rebalances until it has to be settled

    def join(self):
        self.joined += 1
        self.workers[f"m{self.joined:03d}"] = Worker(f"http://w{self.joined}/")

    def leave(self, index):
        if len(self.workers) > 1:
            del self.workers[sorted(self.workers)[index % len(self.workers)]]

    def hang(self, index):
        """Removes it from the group without its knowledge: it continues its work."""
        before = dict(self.workers)
        self.leave(index)
        self.hung += [worker for id_, worker in before.items() if id_ not in self.workers]

    def wake(self):
        """All that hung come back under new ids, with the work that others may have by now."""
        for worker in self.hung:
            self.joined += 1
            self.workers[f"m{self.joined:03d}"] = worker
        self.hung = []

    def bounce(self, index):
        self.leave(index)
        self.join()

    def restart(self, index):
        """As a new process at the same address, without work."""
        before = dict(self.workers)
        self.leave(index)
        for url in [worker.url for id_, worker in before.items() if id_ not in self.workers]:
            self.join()
            self.workers[max(self.workers)].url = url

    def configure(self, name, tasks):
        """Create or change a connector; with None delete it."""
        counts = {**self.config.task_counts, name: tasks}
        counts = {key: count for key, count in counts.items() if count is not None}
        self.config = ClusterConfigState(
            offset=self.config.offset + 1, connector_configs={key: {} for key in counts}, task_counts=counts
        )

    def rebalance(self, cut_off=frozenset(), leader_completes=True):
        """One rebalance. Workers in `cut_off` (by number) do not get their answer."""
        self.generation += 1
        leader_id = min(self.workers)
        leader = self.workers[leader_id]
        members = {
            id_: MemberMetadata(worker.url, self.config.offset, worker.owned) for id_, worker in self.workers.items()
        }
        before = leader.assignor
        leader.assignor, answers = assign(
            before,
            members,
            self.config,
            leader=leader_id,
            generation=self.generation,
            last_completed=leader.last_completed,
            now_ms=self.now_ms,
            max_delay_ms=self.max_delay_ms,
        )
        self.check(leader.assignor, answers)
        for number, (id_, worker) in enumerate(sorted(self.workers.items())):
            if number in cut_off or (id_ == leader_id and not leader_completes):
                continue
            answer = answers[id_]
            worker.owned = worker.owned.minus(answer.revoked).plus(answer.assigned)
            worker.last_completed = self.generation
        self.delay_ms = max(answer.delay_ms for answer in answers.values())
        return answers

    def check(self, state: AssignorState, answers: dict[str, Assignment]):
        owned = {id_: worker.owned.items for id_, worker in self.workers.items()}
        active = frozenset().union(*owned.values())
        configured = self.configured()
        for one, other in combinations(answers.values(), 2):
            assert not one.assigned.items & other.assigned.items, "handed out twice"
        for id_, answer in answers.items():
            assert not answer.assigned.items & active, "handed out while somebody runs it"
            assert answer.assigned.items <= configured, "deleted work handed out"
            assert answer.revoked.items <= owned[id_], "taken from a worker that does not run it"
            assert 0 <= answer.delay_ms <= self.max_delay_ms
            assert owned[id_] & (active - configured) <= answer.revoked.items, "deleted work goes on"
        assigned = frozenset().union(*(answer.assigned.items for answer in answers.values()))
        waiting = configured - active - assigned
        assert waiting <= state.previous.keys(), "neither handed out nor remembered"
        assert not waiting or state.due_ms is not None, "waits for nothing"
        for item in (item for one, other in combinations(owned.values(), 2) for item in one & other):
            kept = [id_ for id_, items in owned.items() if item in items - answers[id_].revoked.items]
            assert len(kept) <= 1, "goes on at two workers"
            for id_ in kept:  # the others' claims are of no use, as if they had none
                owned = {k: items - ({item} if k != id_ else set()) for k, items in owned.items()}
        self.check_need(owned, frozenset().union(*(answers[i].revoked.items & owned[i] for i in owned)) & configured,
                        state)

    def check_need(self, owned, moved, state):
        """Work that is taken away ran twice, or its worker had more than its share, and no more than the surplus."""
        twice = {item for one, other in combinations(owned.values(), 2) for item in one & other}
        if state.due_ms is not None:
            assert moved <= twice, "moved while a delay runs"
        for is_task in (False, True):
            kind = {item for item in self.configured() if isinstance(item, ConnectorTaskId) is is_task}
            loads = sorted((len(items & kind - twice) for items in owned.values()), reverse=True)
            fair, extras = divmod(len(kind), len(owned))
            need = sum(
                max(0, load - fair - (1 if number < extras else 0)) for number, load in enumerate(loads)
            )
            assert len((moved & kind) - twice) in (0, need)

    def configured(self):
        names = self.config.connectors()
        return frozenset(names).union(*(self.config.tasks(name) for name in names))

    def settle(self):
        """Rebalances as the members themselves would ask for: after a revocation, and when a delay is over."""
        for _ in range(self.patience):
            answers = self.rebalance()
            if self.delay_ms:
                self.now_ms += self.delay_ms
            elif not any(answer.revoked for answer in answers.values()):
                return
        raise AssertionError("does not settle")

    def check_settled(self):
        owned = [worker.owned for worker in self.workers.values()]
        assert sum(len(one.items) for one in owned) == len(self.configured())
        assert frozenset().union(*(one.items for one in owned)) == self.configured()
        self.check_balance(owned)
        assert not any(answer.assigned or answer.revoked or answer.delay_ms for answer in self.rebalance().values())

    def check_balance(self, owned):
        for sizes in ([len(one.connectors) for one in owned], [len(one.tasks) for one in owned]):
            assert max(sizes) - min(sizes) <= 1


small = st.integers(0, 7)
DELAYS = st.sampled_from([0, 1, 250, 300_000])


def histories(*configured):
    """Steps of a group; `configured`: what there is to say of a connector beside its name and its tasks."""
    return st.lists(st.one_of(
        st.tuples(st.just("join")),
        st.tuples(st.just("leave"), small),
        st.tuples(st.just("bounce"), small),
        st.tuples(st.just("restart"), small),
        st.tuples(st.just("hang"), small),
        st.tuples(st.just("wake")),
        st.tuples(st.just("configure"), st.sampled_from(NAMES), st.none() | st.integers(0, 9), *configured),
        st.tuples(st.just("wait"), st.integers(1, 400)),
        st.tuples(st.just("rebalance"), st.frozensets(small, max_size=3), st.booleans()),
        st.tuples(st.just("settle")),
    ), max_size=30)


def live(group, history):
    """A group of one worker to begin with goes through a history, and settles."""
    group.join()
    for step, *arguments in history:
        if step == "wait":
            group.now_ms += arguments[0]
        else:
            getattr(group, step)(*arguments)
    group.settle()
    group.check_settled()


def settled(group, workers, connectors):
    """The group with so many workers and these connectors: what there is to say of each beside its name."""
    for _ in range(workers):
        group.join()
    for name, said in zip(NAMES, connectors, strict=False):
        group.configure(name, *said)
    group.settle()
    return group


def check_back_at_once(group, index, claims):
    """A worker that is not the leader leaves and returns. It gets its work back, whether it still knows it (after a
    suspension) or not (after a restart), and nothing else moves.
    """
    leaver = sorted(group.workers)[1:][index % (len(group.workers) - 1)]
    worker = group.workers.pop(leaver)
    group.rebalance()
    group.join()
    back = group.workers[max(group.workers)]
    before, back.url = worker.owned, worker.url
    if claims:
        back.owned = worker.owned
    answers = group.rebalance()
    assert back.owned == before
    assert not any(answer.revoked or answer.delay_ms for answer in answers.values())
    group.check_settled()
