"""A Java plugin host as its tasks see it: sessions at whose other end the test is."""

from __future__ import annotations

import json
import queue
import socket

from heeler.java_host.connection import Connection, JavaPluginError
from spark_tasks.host_frames import BATCH, HEAD, message
from tests.rigs.host_frames import packed


class Host:
    """Each `connect` is a new session, at whose other end this test is."""

    def __init__(self):
        self.sessions = queue.Queue()

    def connect(self, on_message, offsets, name, _connector):
        mine, other = socket.socketpair()
        self.sessions.put(Session(mine))
        return Connection(other, on_message, offsets, name)


class Session:
    def __init__(self, sock):
        self.socket = sock
        sock.settimeout(10)
        self.frames = 0

    def read(self):
        _, number, size = HEAD.unpack(self.socket.recv(HEAD.size, socket.MSG_WAITALL))
        return number, json.loads(self.socket.recv(size, socket.MSG_WAITALL))

    def op(self):
        return self.read()[1]["op"]

    def say(self, op, number=0, **content):
        self.socket.sendall(message(number, {"op": op, **content}))

    def leave(self):
        """What the host does until the task's plugin has stopped."""
        while self.op() != "stop":
            pass
        assert self.op() == "finish"
        self.frame(b"polled meanwhile", offset=99)
        self.say("drained")
        self.say("stopped")

    def frame(self, *values, offset, more=False, wanted=False, signal=None):
        self.frames += 1
        body = packed([("t", -1, 5, None, value, []) for value in values],
                      [['{"p":1}', json.dumps({"n": offset})]], more, wanted, signal)
        self.socket.sendall(HEAD.pack(BATCH, self.frames, len(body)) + body)


def stepped(rig):
    """run_once when something has come."""
    assert rig.woken.wait(10)
    rig.woken.clear()
    return rig.task.run_once()


def failure_of(rig):
    """What the task fails with, in this step or the next."""
    while True:
        try:
            stepped(rig)
        except JavaPluginError as error:
            return error
