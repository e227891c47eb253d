"""Finds any of thousands of words in a text, within time that depends on the length of the text alone."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import numpy as np

_START: Final = 4  # characters of a word that are looked for first
_KEY: Final = 64  # a longer word is compared as a whole only where its first 64 characters occur
_SHORT: Final = 1024  # characters up to which numpy would not be faster
_PIECE: Final = 16_384  # characters of a text that numpy examines at a time: they fit into the processor's caches
_TABLE_BITS: Final = 20
_FACTORS: Final = (2654435761, 2246822519, 3266489917, 668265263)  # odd numbers with bits all over
_ALNUM = re.compile(r"[^\W_]")
_ESCAPE = re.compile(r"\\(?:[nrt]|x[0-9a-f]{2}|u[0-9a-f]{4})\Z")  # its letters and digits belong to no word


class Occurrences:
    """A set of words and where they occur. One thread at a time may add words, others may search at the same time."""

    def __init__(self) -> None:
        self._words: dict[str, dict[str, bool]] = {}  # by their first characters; whether they are found inside words
        self._lengths: dict[str, tuple[int, ...]] = {}  # of the keys of `_words` that start with these characters
        self._starts: dict[int, set[str]] = {}  # the keys of `_lengths` by their length
        self._tables: dict[int, tuple[int, np.ndarray]] = {}

    def add(self, word: str, *, anywhere: bool) -> None:
        """Adds a word of at least one character. `anywhere`: it is also found next to letters and digits."""
        key, start = word[:_KEY], word[:_START]
        known = self._words.setdefault(key, {})
        known[word] = anywhere or known.get(word, False)
        lengths = self._lengths.get(start, ())
        if len(key) not in lengths:
            self._lengths[start] = (*lengths, len(key))
            self._starts.setdefault(len(start), set()).add(start)

    def spans(self, text: str) -> Iterator[tuple[int, int]]:
        """Yields spans (start, end) that cover all occurrences and nothing else. They may overlap."""
        seen: dict[str, int] = {}  # the last known start of words
        for size in tuple(self._starts):
            for at in self._candidates(text, size):
                for length in self._lengths.get(text[at : at + size], ()):
                    for word, anywhere in self._words.get(text[at : at + length], {}).copy().items():
                        if at <= seen.get(word, -1) or not text.startswith(word, at):
                            continue
                        if anywhere:
                            # At once with those that overlap: in a text like -------- there is one at each character.
                            last = seen[word] = text.rfind(word, at, at + 2 * len(word))
                            yield at, last + len(word)
                        elif _alone(text, at, at + len(word)):
                            yield at, at + len(word)

    def _candidates(self, text: str, size: int) -> Iterator[int]:
        """Yields in order where a word may start, among other places."""
        if len(text) <= _SHORT:
            starts = self._starts[size]
            yield from [at for at in range(len(text) - size + 1) if text[at : at + size] in starts]
            return
        table = self._table(size)
        for begin in range(0, len(text), _PIECE):
            for at in table[_hashes(text[begin : begin + _PIECE + size - 1], size)].nonzero()[0].tolist():
                yield begin + at

    def _table(self, size: int) -> np.ndarray:
        """For each hash of `size` characters, whether words start with such characters."""
        import numpy as np  # noqa: PLC0415 - takes a tenth of a second, and most texts are lines

        starts = "".join(self._starts[size].copy())
        known = self._tables.get(size)  # of as many characters: none is ever removed
        if known is None or known[0] != len(starts):
            table = np.zeros(1 << _TABLE_BITS, bool)
            table[_hashes(starts, size)[::size]] = True
            known = self._tables[size] = len(starts), table
        return known[1]


def _hashes(text: str, size: int) -> np.ndarray:
    """A number for each `size` characters that follow each other."""
    import numpy as np  # noqa: PLC0415

    codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)
    count = max(0, len(codes) - size + 1)
    found = np.zeros(count, np.uint32)
    for n in range(size):
        found ^= codes[n : n + count] * np.uint32(_FACTORS[n])
    return found >> np.uint32(32 - _TABLE_BITS)


def _alone(text: str, start: int, end: int) -> bool:
    """Whether no letter or digit touches the letters and digits at the ends of a word."""
    if _ALNUM.match(text, end - 1) and _ALNUM.match(text, end):
        return False
    free = start == 0 or not _ALNUM.match(text, start) or not _ALNUM.match(text, start - 1)
    return free or _ESCAPE.search(text, max(0, start - 6), start) is not None
