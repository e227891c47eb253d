"""Which of the received events are handled next."""

from __future__ import annotations

import json

import pytest

from heeler.java_host import arrivals
from heeler.java_host.arrivals import Arrivals
from spark_tasks.host_frames import HostGoneError, batch
from tests.rigs.host_frames import packed


def frame(offset, *, more):
    return batch(offset, packed([("t", -1, 5, None, b"x", [])], [['{"p":1}', json.dumps({"n": offset})]], more))


class Received:
    """A session that has received these events; then the host has ended."""

    def __init__(self, *events):
        self.events = list(events)

    def next(self, *, wait):
        if not self.events:
            raise HostGoneError("gone")
        event = self.events.pop(0)
        assert event is not None or not wait
        return event


WHOLE, BEGUN, ENDED, DRAINED = frame(1, more=False), frame(2, more=True), frame(3, more=False), {"op": "drained"}


def test_a_poll_of_several_frames_is_handled_when_all_have_arrived():
    queue, session = Arrivals(), Received(WHOLE, BEGUN, None, ENDED, DRAINED)
    for wanted in (WHOLE, None, BEGUN, ENDED, DRAINED):
        assert queue.first(session, in_poll=False, wait=False) is wanted
        if wanted is not None:
            queue.pop()
    with pytest.raises(HostGoneError):
        queue.first(session, in_poll=False, wait=False)


def test_of_a_poll_that_has_begun_each_frame_is_handled_at_once(monkeypatch):
    queue, session = Arrivals(), Received(BEGUN, BEGUN)
    monkeypatch.setattr(arrivals, "KEPT_BYTES", 1)
    assert queue.first(session, in_poll=False, wait=False) is BEGUN, "it is too large to be kept"
    queue.pop()
    monkeypatch.undo()
    assert queue.first(session, in_poll=True, wait=False) is BEGUN


def test_letters_count_as_records_do(monkeypatch):
    """A poll of which no record was good was kept without a limit."""
    letters = batch(2, packed([("", -1, 5, None, b"x", [("h", bytes(1000))])], (), more=True, letters=[0]))
    queue, session = Arrivals(), Received(letters, None)
    monkeypatch.setattr(arrivals, "KEPT_BYTES", 1000)
    assert queue.first(session, in_poll=False, wait=False) is letters


def test_a_failure_is_found_behind_frames_that_wait():
    queue, failed = Arrivals(), {"op": "failed", "class": "x.Boom"}
    assert queue.failure is None
    queue.add([WHOLE, BEGUN])
    assert queue.failure is None
    queue.add([failed, DRAINED])
    assert queue.failure is failed
    assert queue.first(Received(), in_poll=False, wait=False) is WHOLE


def test_frames_that_are_put_back_are_handled_before_others_and_without_the_host():
    queue, session = Arrivals(), Received(DRAINED)
    assert queue.first(session, in_poll=False, wait=True) is DRAINED
    assert queue.drained
    queue.put_back([WHOLE, BEGUN, ENDED])
    assert not queue.drained
    for wanted in (WHOLE, BEGUN, ENDED, DRAINED):
        assert queue.first(session, in_poll=False, wait=False) is wanted
        queue.pop()
    assert not queue
