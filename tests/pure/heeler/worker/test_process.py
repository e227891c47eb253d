"""Parts of a worker's end."""

from __future__ import annotations

import logging
import threading
from typing import Any

import pykka
import pytest

from heeler.worker.process import stop_actor


class Hanging(pykka.ThreadingActor):
    """Does not stop before `released` is set."""

    use_daemon_thread = True
    released = threading.Event()

    def on_stop(self) -> None:
        self.released.wait(20)


def test_an_actor_that_hangs_does_not_keep_other_parts_from_stopping(caplog: pytest.LogCaptureFixture) -> None:
    ref: pykka.ActorRef[Any] = Hanging.start()
    with caplog.at_level(logging.WARNING):
        stop_actor(ref, 0.01)
    assert caplog.messages == ["Hanging did not stop within 0 s"]
    Hanging.released.set()
    stop_actor(ref)
    assert not ref.is_alive()
