"""Starts store actors over any log and collects the messages that they send."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pykka

from actors.messages.commands import ConfigWrite, Decided, FlushStatuses, PutStatus, WriteConfig
from actors.messages.correlation_ids import OpId
from actors.messages.events import ConfigOpDone, StatusesFlushed
from actors.stores.config import ConfigStoreActor
from actors.stores.status import StatusStoreActor
from actors.ticker import Ticker
from storage.config.view import ConfigView
from storage.log.interface import PrivilegedWriter, TopicLog
from storage.status.view import StatusView
from tests.rigs.support import wait_until


def decide(ref: pykka.ActorRef[Any], command: PutStatus | WriteConfig) -> None:
    """Tell a store what the herder has decided just now."""
    ref.tell(Decided(command, time.monotonic()))


class Rig:
    """`said`: everything that the stores told the herder, in order."""

    def __init__(self) -> None:
        self.said: list[Any] = []
        self.ticker = Ticker()
        self.ticker.start()
        self.refs: list[pykka.ActorRef[Any]] = []
        self.ops = iter(range(1, 10**6))
        self.lock = threading.Lock()

    def config_store(
        self, log: TopicLog, writer: PrivilegedWriter | None = None
    ) -> tuple[pykka.ActorRef[ConfigStoreActor], ConfigView]:
        view = ConfigView()
        ref = ConfigStoreActor.start(log, self.said.append, view, self.ticker, writer)
        self.refs.append(ref)
        return ref, view

    def status_store(self, log: TopicLog) -> tuple[pykka.ActorRef[StatusStoreActor], StatusView]:
        view = StatusView()
        ref = StatusStoreActor.start(log, self.said.append, view, self.ticker)
        self.refs.append(ref)
        return ref, view

    def op(self) -> OpId:
        with self.lock:
            return OpId(next(self.ops))

    def write(self, ref: pykka.ActorRef[Any], write: ConfigWrite) -> ConfigOpDone:
        op = self.op()
        decide(ref, WriteConfig(op, write))
        return self.done(op)

    def done(self, op: OpId, kind: Callable[..., Any] = ConfigOpDone) -> Any:
        return wait_until(lambda: next((m for m in list(self.said) if isinstance(m, kind) and m.op == op), None))

    def catch_up(self, ref: pykka.ActorRef[Any]) -> None:
        """Return when the status store has handled its messages."""
        op = self.op()
        ref.tell(FlushStatuses(op))
        self.done(op, StatusesFlushed)

    def stop(self) -> None:
        for ref in self.refs:
            ref.stop()
        self.ticker.stop()


@contextmanager
def running() -> Iterator[Rig]:
    rig = Rig()
    try:
        yield rig
    finally:
        rig.stop()
