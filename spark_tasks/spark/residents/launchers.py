"""Which launchers start executor processes, and how many more each may start."""

from __future__ import annotations

from collections.abc import Mapping

from spark_tasks.spark.residents.process import Launcher, Resident


class Launchers:
    """The current launcher, those before it whose processes have not been handed over yet, and the stand-in, which also
    starts processes while the current one is late. `residents`: all processes. The caller of each method holds the
    lock.
    """

    def __init__(self, residents: Mapping[int, Resident], max_processes: int) -> None:
        self.current: Launcher | None = None
        self.former: list[Launcher] = []
        self.stand_in: Launcher | None = None
        self.standing_in = False
        self._residents = residents
        self._max_processes = max_processes

    def use(self, launcher: Launcher | None, stand_in: Launcher | None) -> None:
        """Makes this one the current one, and closes the previous stand-in."""
        if self.current is not None:
            self.former.append(self.current)
        if self.stand_in is not None:
            self.stand_in.close()
        self.current, self.stand_in, self.standing_in = launcher, stand_in, False

    def hand_over(self) -> list[Launcher]:
        """A process of the current launcher has joined: those of others are not `kept` any more. Returns the former
        launchers, to be closed.
        """
        former, self.former, self.standing_in = self.former, [], False
        return former

    def close(self) -> list[Launcher]:
        """There is no launcher any more. Returns all of them, to be closed."""
        all_of_them = [one for one in (self.current, self.stand_in, *self.former) if one is not None]
        self.current, self.stand_in, self.former = None, None, []
        return all_of_them

    def kept(self, resident: Resident) -> bool:
        """Whether the process is kept when it has run its split."""
        one = resident.launcher
        return one is self.current or one in self.former or (self.standing_in and one is self.stand_in)

    def late(self, since: float) -> bool:
        """Whether a process that the current launcher should have started before `since` has not joined."""
        return any(r.line is None and r.launcher is self.current and r.since < since for r in self._residents.values())

    @property
    def settled(self) -> bool:
        """Whether a process of the current launcher has joined."""
        return any(r.launcher is self.current and r.line is not None for r in self._residents.values())

    @property
    def most(self) -> int:
        """How many processes there may be."""
        room = self.current.max_processes if self.current is not None else 0
        return min(room or self._max_processes, self._max_processes)  # 0: it has ended, and there will be another one

    @property
    def full(self) -> bool:
        """Whether no more processes may be started, unless others end."""
        return self.current is not None and self.room(self.current) <= 0

    @property
    def crowded(self) -> bool:
        """Whether more processes have joined than the limit allows, because the stand-in's did not wait for others."""
        return not self.former and sum(1 for r in self._residents.values() if r.line is not None) > self._max_processes

    def room(self, launcher: Launcher) -> int:
        """How many more processes the launcher may start. Processes of other launchers count once they have joined, but
        at a hand-over, those of the former launcher do not count.
        """
        others = [r for r in self._residents.values() if r.launcher is not launcher and r.line is not None]
        launched = sum(1 for r in self._residents.values() if r.launcher is launcher)
        others_count = 0 if self.former else len(others)
        return min(self._max_processes - launched - others_count, launcher.max_processes - launched)
