"""Assignment of tasks by the weight of their connector (`tasks.weight`), which spreads heavy tasks over workers. Pure.

Java workers ignore the key but carry out what a heeler leader assigns; a Java leader counts tasks. If no connector has
a weight, this module is not used: the assignors count tasks too.
"""

from __future__ import annotations

import heapq
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from storage.config.state import ClusterConfigState
from storage.ids import ConnectorName, ConnectorTaskId, ItemId

KEY = "tasks.weight"
HEAVIEST = 1000
_NUMBER = re.compile(r"\s*\+?0*([1-9][0-9]{0,3})\s*", re.ASCII)

Loads = Mapping[str, set[ItemId]]
"""What each member has, including connectors' own instances, whose weight is 0."""
_ByWeight = dict[int, list[ConnectorTaskId]]


@dataclass(frozen=True, slots=True)
class Weights:
    """Weights other than 1, by connector. Anything but a number from 1 to 1000 (a placeholder, say) counts as 1."""

    heavy: Mapping[ConnectorName, int]

    @classmethod
    def of(cls, config: ClusterConfigState) -> Weights:
        """The weights in the connectors' configurations."""
        weights = {}
        for name, connector in config.connector_configs.items():
            match = _NUMBER.fullmatch(connector.get(KEY) or "")
            if match is not None and 1 < int(match[1]) <= HEAVIEST:
                weights[name] = int(match[1])
        return cls(weights)

    def __bool__(self) -> bool:
        return bool(self.heavy)

    def weight(self, item: ItemId) -> int:
        """The weight of a task; 0 for a connector's own instance."""
        return self.heavy.get(item.connector, 1) if isinstance(item, ConnectorTaskId) else 0

    def total(self, items: Iterable[ItemId]) -> int:
        """The sum of the items' weights."""
        return sum(map(self.weight, items))

    def give(self, loads: Loads, tasks: Iterable[ConnectorTaskId]) -> None:
        """Assigns tasks, the heaviest first, each to the member with the smallest load."""
        heap = [(self.total(load), id_) for id_, load in loads.items()]
        heapq.heapify(heap)
        for task in sorted(tasks, key=lambda task: (-self.weight(task), task)):
            held, id_ = heap[0]
            loads[id_].add(task)
            heapq.heapreplace(heap, (held + self.weight(task), id_))

    def surplus(self, loads: Loads, back: Mapping[ItemId, str], waiting: Iterable[ConnectorTaskId],
                max_moves: int | None) -> dict[str, set[ItemId]]:
        """What to revoke so that assigning it again (`give`) improves the balance; nothing if it would not.

        `back`: what members are about to get back; `waiting`: tasks without a member, which are assigned in any case;
        `max_moves`: the largest number of tasks to revoke.
        """
        members = {id_: set(load) for id_, load in loads.items()}
        for item, id_ in back.items():
            members[id_].add(item)
        self.give(members, waiting)
        moves = self._moves({id_: set(load) for id_, load in members.items()}, loads, max_moves)
        # A single move is always an improvement; after many, assigning by weight may give a worse result.
        while moves and not self._better(members, moves):
            moves = moves[: len(moves) // 2]
        taken: dict[str, set[ItemId]] = {id_: set() for id_ in loads}
        for id_, task in moves:
            taken[id_].add(task)
        return taken

    def _moves(self, members: Loads, loads: Loads, max_moves: int | None) -> list[tuple[str, ConnectorTaskId]]:
        """Successive moves to the member with the smallest load; each one reduces the difference of two members."""
        totals = {id_: self.total(load) for id_, load in members.items()}
        movable = {id_: self._by_weight(load) for id_, load in loads.items()}
        moves: list[tuple[str, ConnectorTaskId]] = []
        while max_moves is None or len(moves) < max_moves:
            least = min(totals, key=lambda id_: (totals[id_], id_))
            move = self._best(totals, movable, totals[least])
            if move is None:
                break
            id_, weight = move
            task = movable[id_][weight].pop()
            if not movable[id_][weight]:
                del movable[id_][weight]
            totals[id_] -= weight
            totals[least] += weight
            moves.append((id_, task))
        return moves

    def _by_weight(self, load: Iterable[ItemId]) -> _ByWeight:
        """The tasks of each weight, the first one last. Few weights have thousands of tasks, and each move looks for
        the best one.
        """
        tasks: _ByWeight = {}
        for task in sorted((item for item in load if isinstance(item, ConnectorTaskId)), reverse=True):
            tasks.setdefault(self.weight(task), []).append(task)
        return tasks

    @staticmethod
    def _best(totals: Mapping[str, int], movable: Mapping[str, _ByWeight], least: int) -> tuple[str, int] | None:
        """The member and the weight of the next task to move: from the most loaded member with a suitable one, the
        closest to half of the gap.
        """
        for id_ in sorted(totals, key=lambda id_: (-totals[id_], id_)):
            gap = totals[id_] - least
            fitting = [(abs(gap - 2 * weight), tasks[-1], weight) for weight, tasks in movable[id_].items()
                       if weight < gap]
            if fitting:
                return id_, min(fitting)[2]
        return None

    def _better(self, members: Loads, moves: Iterable[tuple[str, ConnectorTaskId]]) -> bool:
        after = {id_: set(load) for id_, load in members.items()}
        for id_, task in moves:
            after[id_].discard(task)
        self.give(after, [task for _, task in moves])
        return self._imbalance(after) < self._imbalance(members)

    def _imbalance(self, loads: Loads) -> int:
        return sum(self.total(load) ** 2 for load in loads.values())
