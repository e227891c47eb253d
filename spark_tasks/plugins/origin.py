"""The original topic and partition of the records of a sink's `write`, which transforms may have changed (KIP-793)."""

from __future__ import annotations

from contextvars import ContextVar

Place = tuple[str, int]
_current: ContextVar[Place | None] = ContextVar("kafka_partition", default=None)


def kafka_partition() -> Place | None:
    """Returns topic and partition in Kafka of all records of the `write` that runs in this thread; `resume_from` gets
    the same. The records themselves may have other topics, which transforms have set. A writer with `resume_from` gets
    those of the queue in a replay of dead letters. Returns None outside of a `write`.
    """
    return _current.get()


class reading_from:  # noqa: N801 - used as a function
    """A context manager in whose block `kafka_partition` returns this topic and partition."""

    def __init__(self, place: Place | None) -> None:
        self._place = place

    def __enter__(self) -> None:
        self._token = _current.set(self._place)

    def __exit__(self, *_: object) -> None:
        _current.reset(self._token)
