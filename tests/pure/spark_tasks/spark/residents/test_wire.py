import socket
import time
from threading import Thread

import pytest

from spark_tasks.spark.residents import wire


@pytest.fixture
def sockets():
    worker, process = socket.socketpair()
    worker.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 16_384)
    with worker, process:
        yield worker, process


@pytest.mark.parametrize("size", [0, 1, 1000, 65_536, 65_537, 3_000_000])
def test_a_frame_that_was_begun_is_received_once(sockets, size):
    worker, process = sockets
    payload = bytes(n % 251 for n in range(size))
    begun = wire.begin_to_send(worker, payload)
    assert begun == (0 if size > 65_536 else min(begun, size + wire.HEAD.size))
    assert begun or size > 65_536
    sender = Thread(target=wire.send, args=(worker, payload, begun))
    sender.start()
    assert wire.receive(process) == payload
    sender.join()
    worker.shutdown(socket.SHUT_WR)
    assert process.recv(1) == b""


def test_a_frame_that_is_too_large_is_not_received(sockets):
    worker, process = sockets
    process.sendall(wire.HEAD.pack(1001))
    with pytest.raises(wire.ConnectionLostError, match="a frame of 1001 bytes"):
        wire.receive(worker, 1000)


def test_a_handshake_has_one_deadline(sockets):
    """However slowly a stranger sends."""
    worker, process = sockets
    process.sendall(b"x")
    with pytest.raises(TimeoutError):
        wire.exactly(worker, 2, deadline=time.monotonic() - 1)


def test_a_frame_for_which_there_is_no_room_is_not_begun(sockets):
    worker, process = sockets
    sent = 0
    while begun := wire.begin_to_send(worker, bytes(1000)):  # does not wait
        sent += begun
    sender = Thread(target=wire.send, args=(worker, b"last"))
    sender.start()
    wire.exactly(process, sent)
    assert wire.receive(process) == b"last"
    sender.join()


def test_the_end_of_a_connection_is_left_to_send(sockets):
    worker, process = sockets
    process.close()
    assert wire.begin_to_send(worker, b"split") == 0
    with pytest.raises(OSError, match="Broken pipe"):
        wire.send(worker, b"split")


@pytest.mark.parametrize(("changes", "answer"), [
    ("", b"\x80pickle"), ("the locale", b"\x80pickle"), ("the locale", b""), ("", b""),
    ("environment variables (\u00fc)", b"\x80\0"),
])
def test_what_was_set_up_comes_before_the_answer(changes, answer):
    assert wire.parted(bytearray(wire.before_answer(changes) + answer)) == (changes, answer)


def test_a_large_answer_is_not_copied_for_what_was_set_up():
    sent = []

    class Socket:
        def sendall(self, data):
            sent.append(data)

    answer = b"x" * (1 << 20)
    wire.send(Socket(), answer, before=wire.before_answer("the locale"))
    assert [len(each) for each in sent] == [wire.HEAD.size + 12, len(answer)]
    assert sent[1] is answer


def test_what_was_set_up_is_short_and_an_unfinished_text_is_no_answer():
    changes, answer = wire.parted(wire.before_answer("a\0b" + "x" * 100_000) + b"pickle")
    assert (changes, answer) == ("a?b" + "x" * 997, b"pickle")
    assert wire.parted(b"\0\xff\0") == ("\ufffd", b"")
    assert wire.parted(b"\0" + b"x" * 2000 + b"\0") == ("", b"")
    assert wire.parted(b"\0\0pickle") == ("something", b"pickle")
