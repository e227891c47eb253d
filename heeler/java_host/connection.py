"""The worker's end of a connection to the host, used by a connector instance, a task, or for a few requests."""

from __future__ import annotations

import itertools
import json
import logging
import select
import socket
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Any

from spark_tasks.backoff import doubled
from spark_tasks.errors import ConnectError, RetriableError
from spark_tasks.futures import complete, fail
from spark_tasks.host_frames import BATCH, Batch, HostGoneError, batch, message, received_frame, thrown_text
from spark_tasks.tasks.retries import FIRST_WAIT_MS, LONGEST_WAIT_MS

_logger = logging.getLogger(__name__)
_BUFFER = 1 << 20

Message = Mapping[str, Any]
Event = Message | Batch | ConnectError
"""Anything but a response; the last event of a connection is a HostGoneError."""


class NoResponseError(ConnectError):
    """The host has not responded in time."""


class JavaPluginError(ConnectError):
    """An exception thrown by a Java plugin: its class, message and stack trace."""


def thrown(fields: Message) -> JavaPluginError:
    """The error in a message; it is permanent if the message says so."""
    error = JavaPluginError(f"{thrown_text(fields)}\n{fields.get('trace', '')}".rstrip())
    error.permanent = fields.get("permanent") is True
    error.java_class, error.java_message = str(fields.get("class")), fields.get("message")
    return error


def _checked(response: Message) -> Message:
    if response.get("op") == "failed":
        raise thrown(response)
    return response


class Connection:
    """Frames over a connected and authenticated socket. A thread reads them: responses go to the caller, everything
    else goes to `on_event`, which may block (the host then has to wait) and whose last call has a HostGoneError.
    `offsets` returns the connector's committed offsets, as JSON texts, when the host requests them; it is called again
    if it raises a RetriableError.
    """

    def __init__(
        self, sock: socket.socket, on_event: Callable[[Event], None] = lambda _: None,
        offsets: Callable[[], list[tuple[str, str]]] = list, name: str = "requests",
    ) -> None:
        self._socket = sock
        self._on_event = on_event
        self._offsets = offsets
        self.folder = ""  # of the host's socket
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()  # for writing
        self._pending: dict[int, Future[Message]] = {}
        self._gone = False
        self._closing = threading.Event()
        for option in (socket.SO_SNDBUF, socket.SO_RCVBUF):
            sock.setsockopt(socket.SOL_SOCKET, option, _BUFFER)
        threading.Thread(target=self._read, name=f"java-host-{name}", daemon=True).start()

    def ask(self, op: str, **fields: Any) -> Message:
        """Sends a request and waits for the response. Raises JavaPluginError, HostGoneError."""
        return _checked(self.begin(op, **fields).result())

    def ask_within(self, seconds: float, op: str, **fields: Any) -> Message:
        """Like `ask`, but raises NoResponseError after this time, even if the host reads nothing."""
        until = time.monotonic() + seconds
        number, future = self._expected()
        try:
            self._send(message(number, {"op": op, **fields}), seconds)
            return _checked(future.result(max(0.0, until - time.monotonic())))
        except TimeoutError as error:
            raise NoResponseError(f"no response to {op} within {seconds:g} s") from error
        finally:
            self._pending.pop(number, None)

    def begin(self, op: str, **fields: Any) -> Future[Message]:
        """Sends a request. The future gets the response, or a HostGoneError. Raises HostGoneError."""
        number, future = self._expected()
        self._send(message(number, {"op": op, **fields}))
        return future

    def _expected(self) -> tuple[int, Future[Message]]:
        """The number of a new request, and the future of its response."""
        number = next(self._numbers)
        future: Future[Message] = Future()
        self._pending[number] = future
        if self._gone:
            raise HostGoneError("The Java plugin host has ended")
        return number, future

    def tell(self, op: str, **fields: Any) -> None:
        """Sends a message that has no response. Raises HostGoneError."""
        self._send(message(0, {"op": op, **fields}))

    def give(self, frame: bytes) -> None:
        """Sends a frame of records. Raises HostGoneError."""
        self._send(frame)

    @property
    def gone(self) -> bool:
        """Whether the connection has ended."""
        return self._gone

    def close(self) -> None:
        """Closes the connection; requests that wait for a response fail with HostGoneError. Any thread, any number of
        times.
        """
        self._closing.set()
        try:
            self._socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            _logger.debug("The connection is closed already")

    def _send(self, frame: bytes, within_s: float | None = None) -> None:
        """Raises TimeoutError if other frames leave no room for a small one within this time."""
        until = time.monotonic() + (within_s or 0.0)
        if not self._lock.acquire(timeout=-1 if within_s is None else within_s):
            raise TimeoutError
        try:
            room = within_s is None or self._has_room(max(0.0, until - time.monotonic()))
            if room:
                self._socket.sendall(frame)
        except (OSError, ValueError) as error:  # ValueError: poll, of a closed socket
            why = "" if self._gone else f": {error}"
            raise HostGoneError(f"The Java plugin host has ended{why}") from error
        finally:
            self._lock.release()
        if not room:
            raise TimeoutError

    def _has_room(self, within_s: float) -> bool:
        """Whether a small frame can be sent without waiting: a part of one would make all that follow unreadable."""
        writable = select.poll()  # select.select has a limit for descriptors
        writable.register(self._socket, select.POLLOUT)
        return bool(writable.poll(1000 * within_s))

    def _read(self) -> None:
        why: HostGoneError
        try:
            while True:
                self._frame()
        except HostGoneError as error:
            why = error
        except Exception as error:  # noqa: BLE001 - whatever it is, those that wait have to learn that no more follows
            why = HostGoneError(f"The connection to the Java plugin host is broken: {error!r}")
        why.wanted = self._closing.is_set()
        self._gone = True
        self._socket.close()
        for future in list(self._pending.values()):
            fail(future, why)
        self._on_event(why)

    def _frame(self) -> None:
        kind, number, body = received_frame(self._socket)
        if kind == BATCH:
            self._on_event(batch(number, body))
            return
        message = json.loads(bytes(body))
        if number > 0:
            waiting = self._pending.pop(number, None)
            if waiting is not None:
                complete(waiting, message)
        elif number < 0:
            self._respond(number)
        else:
            self._on_event(message)

    def _respond(self, number: int) -> None:
        """Responds to a request for the offsets. While Kafka is unavailable, the plugin waits, as in Kafka Connect."""
        failures = 0
        while True:
            try:
                content: Message = {"op": "answer", "pairs": self._offsets()}
                break
            except Exception as error:  # noqa: BLE001 - the plugin waits for a response
                content = {"op": "failed", "message": str(error)}
                wait_s = doubled(FIRST_WAIT_MS, failures, LONGEST_WAIT_MS) / 1000
                if not isinstance(error, RetriableError) or self._closing.wait(wait_s):
                    break
                failures += 1
                _logger.warning("Could not read offsets for a Java plugin, retrying: %s", error)
        self._send(message(number, content))
