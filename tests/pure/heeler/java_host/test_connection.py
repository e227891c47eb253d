"""The worker's end of a connection to the host; the test is the other end."""

from __future__ import annotations

import json
import queue
import select
import socket
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from heeler.java_host.connection import Connection, JavaPluginError, NoResponseError
from spark_tasks.errors import ConnectError, RetriableError, is_permanent
from spark_tasks.host_frames import BATCH, HEAD, HostGoneError, message


class Host:
    def __init__(self, offsets=list):
        self.socket, other = socket.socketpair()
        self.events = queue.Queue()
        self.connection = Connection(other, self.events.put, offsets)

    def read(self):
        _, number, size = HEAD.unpack(self.socket.recv(HEAD.size, socket.MSG_WAITALL))
        return number, json.loads(self.socket.recv(size, socket.MSG_WAITALL))

    def say(self, number, **content):
        self.socket.sendall(message(number, content))


@pytest.fixture
def host():
    made = Host(lambda: [('{"a":1}', '{"b":2}')])
    yield made
    made.connection.close()
    made.socket.close()


@pytest.fixture
def asking():
    with ThreadPoolExecutor() as pool:
        yield pool.submit


def test_responses_reach_their_callers(host, asking):
    first, second = asking(host.connection.ask, "one", x=1), asking(host.connection.ask, "two")
    asked = {content["op"]: number for number, content in (host.read(), host.read())}
    host.say(asked["two"], op="answer", n=2)
    host.say(asked["one"], op="answer", n=1)
    assert (first.result(5)["n"], second.result(5)["n"]) == (1, 2)


@pytest.mark.parametrize("permanent", [False, True])
def test_a_plugins_exception_is_raised(host, asking, permanent):
    asked = asking(host.connection.ask, "start")
    host.say(host.read()[0], op="failed", permanent=permanent,
             **{"class": "x.Boom", "message": "no", "trace": "x.Boom: no\n\tat y.Z"})
    with pytest.raises(JavaPluginError, match=r"x\.Boom: no\n.*at y\.Z") as error:
        asked.result(5)
    assert not isinstance(error.value, HostGoneError)
    assert is_permanent(error.value) is permanent


def test_events_are_handled_and_requests_answered(host):
    host.say(0, op="reconfigure")
    assert host.events.get(timeout=5) == {"op": "reconfigure"}
    host.say(-4, op="offsets")
    assert host.read() == (-4, {"op": "answer", "pairs": [['{"a":1}', '{"b":2}']]})


@pytest.mark.parametrize("error", [ConnectError, KeyError])
def test_offsets_that_cannot_be_read_are_an_error_for_the_host(error):
    def fail():
        raise error("no answer of the topic")

    host = Host(fail)
    host.say(-1, op="offsets")
    assert host.read() == (-1, {"op": "failed", "message": str(error("no answer of the topic"))})
    host.connection.close()


def test_a_plugin_waits_for_its_offsets_while_kafka_is_unavailable():
    """As in Kafka Connect. The plugin got an exception, with which its task FAILED."""
    errors = [RetriableError("no answer within 30 s")] * 2

    def read():
        if errors:
            raise errors.pop()
        return [('{"a":1}', '{"b":2}')]

    host = Host(read)
    host.say(-1, op="offsets")
    assert host.read() == (-1, {"op": "answer", "pairs": [['{"a":1}', '{"b":2}']]})
    host.connection.close()


def test_a_plugin_that_is_given_up_waits_no_longer_for_its_offsets():
    asked = threading.Event()

    def read():
        asked.set()
        raise RetriableError("no answer within 30 s")

    host = Host(read)
    host.say(-1, op="offsets")
    assert asked.wait(5)
    host.connection.close()
    assert isinstance(host.events.get(timeout=5), HostGoneError)


def test_frames_that_cannot_be_handled_end_the_connection(host, asking):
    """A reading thread that ended without a word would leave its task RUNNING, and its callers waiting, forever."""
    asked = asking(host.connection.ask, "start")
    host.read()
    host.socket.sendall(HEAD.pack(BATCH, 1, 1 << 60))  # more than any memory
    with pytest.raises(HostGoneError):
        asked.result(5)
    assert isinstance(host.events.get(timeout=5), HostGoneError)


def test_an_event_that_cannot_be_handled_ends_the_connection():
    events = queue.Queue()

    def take(event):
        events.put(event)
        if not isinstance(event, HostGoneError):
            event["values"]

    near, far = socket.socketpair()
    Connection(far, take)
    near.sendall(message(0, {"op": "metrics"}))
    assert events.get(timeout=5) == {"op": "metrics"}
    assert isinstance(events.get(timeout=5), HostGoneError)
    near.close()


@pytest.mark.parametrize("last", [b"", b"half a head", HEAD.pack(1, 0, -5), HEAD.pack(2, 1, 3) + b"abc",
                                  HEAD.pack(1, 0, 1) + b"{"])
def test_the_end_and_invalid_messages_are_reported_to_all(host, asking, last):
    asked = asking(host.connection.ask, "taskConfigs")
    host.read()
    host.socket.sendall(last)
    host.socket.shutdown(socket.SHUT_RDWR)
    with pytest.raises(HostGoneError):
        asked.result(5)
    assert isinstance(host.events.get(timeout=5), HostGoneError)
    with pytest.raises(HostGoneError):
        host.connection.ask("stop")


def test_a_missing_response_raises_an_error_after_its_time(host):
    with pytest.raises(NoResponseError, match=r"no response to validate within 0\.01 s"):
        host.connection.ask_within(0.01, "validate")
    assert host.read()[1] == {"op": "validate"}


def test_a_late_response_has_no_effect(host, asking):
    with pytest.raises(NoResponseError):
        host.connection.ask_within(0.01, "where")
    host.say(host.read()[0], op="answer", n=1)
    asked = asking(host.connection.ask, "next")
    host.say(host.read()[0], op="answer", n=2)
    assert asked.result(5)["n"] == 2


def test_a_host_that_reads_nothing_does_not_hold_a_request_with_a_limit(host, asking):
    """The watchdog waited for a frame of the same task, and reported nothing."""
    frame = asking(host.connection.give, bytes(64 << 20))
    while not select.select([host.socket], [], [], 5)[0]:
        pass
    request = asking(host.connection.ask_within, 0.1, "where")
    try:
        with pytest.raises(NoResponseError):
            request.result(10)
    finally:
        host.connection.close()
    with pytest.raises(HostGoneError):
        frame.result(10)


def test_a_request_with_a_limit_over_a_closed_connection_is_an_error(host):
    host.connection.close()
    assert isinstance(host.events.get(timeout=5), HostGoneError)
    with pytest.raises(HostGoneError):
        host.connection.ask_within(5, "where")


@pytest.mark.parametrize("wanted", [True, False])
def test_the_end_event_says_whether_this_side_closed_the_connection(host, wanted):
    (host.connection.close if wanted else host.socket.close)()
    assert host.events.get(timeout=5).wanted is wanted
