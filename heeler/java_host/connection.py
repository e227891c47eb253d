"""The worker's end of a connection to the host, used by a connector instance, a task, or for a few requests."""

from __future__ import annotations

import itertools
import json
import logging
import socket
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Any

from spark_tasks.errors import ConnectError
from spark_tasks.futures import complete, fail
from spark_tasks.host_frames import BATCH, HEAD, Batch, HostGoneError, batch, message, received

log = logging.getLogger(__name__)
_BUFFER = 1 << 20

Message = Mapping[str, Any]
Event = Message | Batch | ConnectError
"""An event that is not a response; the last one is a HostGoneError."""


class NoAnswerError(ConnectError):
    """The host has not answered in time."""


class JavaPluginError(ConnectError):
    """An exception thrown by a Java plugin: its class, message and stack trace."""


def thrown(fields: Message) -> JavaPluginError:
    """The error in a message. It is permanent where the host says so."""
    error = JavaPluginError(f"{fields.get('class')}: {fields.get('message')}\n{fields.get('trace', '')}".rstrip())
    error.permanent = fields.get("permanent") is True
    return error


def _answered(answer: Message) -> Message:
    if answer.get("op") == "failed":
        raise thrown(answer)
    return answer


class Connection:
    """Frames over a connected and authenticated socket. A thread reads: responses go to the caller, everything else to
    `on_event`, which may block (which holds the host back) and whose last call has a HostGoneError. `offsets` answers
    the host's requests for the connector's committed offsets, as JSON texts.
    """

    def __init__(
        self, sock: socket.socket, on_event: Callable[[Event], None] = lambda _: None,
        offsets: Callable[[], list[tuple[str, str]]] = list, name: str = "questions",
    ) -> None:
        self._socket = sock
        self._on_event = on_event
        self._offsets = offsets
        self.folder = ""  # of the host's socket
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()  # for writing
        self._asked: dict[int, Future[Message]] = {}
        self._gone = False
        self._closed = False
        for option in (socket.SO_SNDBUF, socket.SO_RCVBUF):
            sock.setsockopt(socket.SOL_SOCKET, option, _BUFFER)
        threading.Thread(target=self._read, name=f"java-host-{name}", daemon=True).start()

    def ask(self, op: str, **more: Any) -> Message:
        """Wait for the host's answer. Raises JavaPluginError, HostGoneError."""
        return _answered(self.begin(op, **more).result())

    def ask_within(self, seconds: float, op: str, **more: Any) -> Message:
        """The same, but NoAnswerError after that time."""
        try:
            return _answered(self.begin(op, **more).result(seconds))
        except TimeoutError as error:
            raise NoAnswerError(f"no answer to {op} within {seconds:g} s") from error

    def begin(self, op: str, **more: Any) -> Future[Message]:
        """A question; its answer comes later, or a HostGoneError. Raises HostGoneError."""
        number = next(self._numbers)
        future: Future[Message] = Future()
        self._asked[number] = future
        if self._gone:
            raise HostGoneError("The host of Java plugins has ended")
        self._send(message(number, {"op": op, **more}))
        return future

    def tell(self, op: str, **more: Any) -> None:
        """Send a message that has no response. Raises HostGoneError."""
        self._send(message(0, {"op": op, **more}))

    def give(self, frame: bytes) -> None:
        """Send a frame of records. Raises HostGoneError."""
        self._send(frame)

    @property
    def gone(self) -> bool:
        """Whether the host has closed it."""
        return self._gone

    def close(self) -> None:
        """Close the connection; requests that wait for an answer fail with HostGoneError. Any thread, any number of
        times.
        """
        self._closed = True
        try:
            self._socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            log.debug("The connection is closed already")

    def _send(self, frame: bytes) -> None:
        try:
            with self._lock:
                self._socket.sendall(frame)
        except OSError as error:
            why = "" if self._gone else f": {error}"
            raise HostGoneError(f"The host of Java plugins has ended{why}") from error

    def _read(self) -> None:
        why: HostGoneError
        try:
            while True:
                self._frame()
        except HostGoneError as error:
            why = error
        except (OSError, ValueError, ConnectError) as error:
            why = HostGoneError(f"The connection to the host of Java plugins is broken: {error}")
        why.wanted = self._closed
        self._gone = True
        self._socket.close()
        for future in list(self._asked.values()):
            fail(future, why)
        self._on_event(why)

    def _frame(self) -> None:
        kind, number, size = HEAD.unpack(received(self._socket, HEAD.size))
        body = received(self._socket, size)
        if kind == BATCH:
            self._on_event(batch(number, body))
            return
        message = json.loads(bytes(body))
        if number > 0:
            waiting = self._asked.pop(number, None)
            if waiting is not None:
                complete(waiting, message)
        elif number < 0:
            self._answer(number)
        else:
            self._on_event(message)

    def _answer(self, number: int) -> None:
        try:
            content: Message = {"op": "answer", "pairs": self._offsets()}
        except ConnectError as error:
            content = {"op": "failed", "message": str(error)}
        self._send(message(number, content))
