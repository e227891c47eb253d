"""The offset store: owns the worker's offsets topic, and reads and alters source offsets on request (KIP-875).

It never blocks: the futures of the stores call the `answer` of a message. Tasks use the stores directly
(`storage.offsets.stores.OffsetStores.of`), from their own threads.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any

import pykka
from typing_extensions import override

from actors.messages.commands import Answer, ReadSourceOffsets, WriteSourceOffsets
from spark_tasks.errors import ConnectError
from spark_tasks.futures import complete, done, error_of, fail, then
from storage.log.interface import PrivilegedWriter
from storage.offsets.fold import Offset, Partition
from storage.offsets.own_topic import OwnOffsets
from storage.offsets.stores import ConnectorOffsetStore, OffsetStores

OpenWriter = Callable[[OwnOffsets | None, str], PrivilegedWriter]
Change = Sequence[tuple[Partition, Offset | None]]


class OffsetStoreActor(pykka.ThreadingActor):
    """Takes ReadSourceOffsets and WriteSourceOffsets. `ready` completes once the worker's topic has been read.

    `open_writer(own_offsets, transactional_id)` creates the writer for offsets that are altered exactly-once.
    """

    use_daemon_thread = True  # as those of the other topics

    def __init__(self, stores: OffsetStores, open_writer: OpenWriter, ready: Future[None]) -> None:
        super().__init__()
        self._stores = stores
        self._open_writer = open_writer
        self._ready = ready

    @override
    def on_start(self) -> None:
        """Begins to read."""

        def started(future: Future[None]) -> None:
            error = error_of(future)
            if error is None:
                complete(self._ready, None)
            else:
                fail(self._ready, error)

        self._stores.worker.start().add_done_callback(started)

    @override
    def on_stop(self) -> None:
        """Closes the worker's topic."""
        self._stores.worker.stop()

    @override
    def on_failure(self, *_: Any) -> None:
        self.on_stop()

    @override
    def on_receive(self, message: Any) -> None:
        match message:
            case ReadSourceOffsets(connector, answer, own):
                store = self._stores.of(connector, own)
                found = then(store.read_soon(), lambda pairs: done(tuple(pairs)))
                self._answer(store, found, answer, "Failed to fetch offsets")
            case WriteSourceOffsets(connector, offsets, answer, own, transactional_id):
                store = self._stores.of(connector, own)
                writer = None if transactional_id is None else (lambda: self._open_writer(own, transactional_id))
                written = then(_changes(store, offsets), lambda pairs: self._write(store, pairs, writer))
                self._answer(store, written, answer, "Failed to alter/reset offsets")
            case _:
                raise TypeError(f"the offset store cannot handle {message!r}")

    @staticmethod
    def _write(
        store: ConnectorOffsetStore, changes: Change, open_writer: Callable[[], PrivilegedWriter] | None
    ) -> Future[None]:
        if open_writer is None or not changes:
            return store.write_soon(changes)
        writer = open_writer()

        def over(_: object) -> None:
            writer.close()

        def committed(_: object) -> Future[None]:
            store.after_commit(changes)
            return done(None)

        removed = then(writer.claim(), lambda _: store.before_commit_soon(changes))
        written = then(then(removed, lambda _: writer.write(store.records(changes))), committed)
        written.add_done_callback(over)
        return written

    @staticmethod
    def _answer(store: ConnectorOffsetStore, outcome: Future[Any], answer: Answer, failure: str) -> None:
        def over(future: Future[Any]) -> None:
            error = error_of(future)
            if error is not None and not isinstance(error, ConnectError):
                error = ConnectError(f"{failure}: {error!r}")
            answer(None if error is not None else future.result(), error)
            store.close_soon()

        outcome.add_done_callback(over)


def _changes(store: ConnectorOffsetStore, offsets: Change | None) -> Future[Change]:
    """The offsets to write; if none are given, all existing ones are removed."""
    if offsets is None:
        return then(store.partitions_soon(), lambda known: done([(partition, None) for partition in known]))
    # The key bytes to use are known once the topic has been read to its end.
    return then(store.read_soon(), lambda _: done(offsets))
