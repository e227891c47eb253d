"""Java plugin hosts whose processes are simulated."""

from __future__ import annotations

import socket
from dataclasses import replace

from heeler.java_host.host import JavaHost
from spark_tasks.host_frames import HostGoneError
from tests.rigs.java_settings import java_settings

RETIRE = {"op": "retire", "why": "It is old"}


class Process:
    """In the place of a HostProcess."""

    made: list[Process] = []  # noqa: RUF012

    def __init__(self, _command, whose):
        self.whose, self.alive, self.accepts, self.closed, self.ends = whose, True, True, 0, []
        self.made.append(self)
        self.folder = f"folder {len(self.made)}"

    def connect(self):
        if not (self.alive and self.accepts):
            raise HostGoneError("it takes none")
        mine, other = socket.socketpair()
        self.ends.append(mine)
        return other

    def why(self):
        return "it was played"

    def close(self, _why=""):
        self.alive = False
        self.closed += 1
        for end in self.ends:
            end.close()


def hosts(**more):
    return JavaHost(lambda _: ("", "service_load"), replace(java_settings({}), **{"grace_s": 600.0, **more}))
