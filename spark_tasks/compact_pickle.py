"""Quick pickles of small objects."""

from __future__ import annotations

from operator import attrgetter
from typing import Any, Final

_values: Final[dict[type[Any], Any]] = {}  # by class: gets its values


class CompactPickle:
    """Base of frozen dataclasses with slots and at least two fields, of which hundreds a second are pickled: as the
    call of their constructor. Python's own way looks up the fields each time, which takes longer than all the rest.
    """

    __slots__ = ()

    def __reduce__(self) -> tuple[Any, ...]:
        kind = type(self)
        if kind not in _values:
            names: Any = kind.__slots__
            _values[kind] = attrgetter(*names)
        return kind, _values[kind](self)
