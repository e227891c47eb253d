"""Where in Kafka the records of a sink's `write` come from, even if transforms gave them other topics (KIP-793)."""

from __future__ import annotations

from contextvars import ContextVar

Place = tuple[str, int]
_current: ContextVar[Place | None] = ContextVar("kafka_partition", default=None)


def kafka_partition() -> Place | None:
    """Topic and partition in Kafka of all records of the `write` that runs in this thread, as `resume_from` gets them.
    Transforms may have given the records one or several other topics. In the replay of a dead letter queue: the
    queue's. None outside of a `write`.
    """
    return _current.get()


class reading_from:  # noqa: N801 - a context manager, used like a function
    """Inside this block `kafka_partition` returns this topic and partition."""

    def __init__(self, place: Place | None) -> None:
        self._place = place

    def __enter__(self) -> None:
        self._token = _current.set(self._place)

    def __exit__(self, *_: object) -> None:
        _current.reset(self._token)
