"""Splits the text of a header value into tokens as Kafka Connect's `Values` does."""

from __future__ import annotations

_DELIMITERS = frozenset(':,{}[]"')


class Tokens:
    """Splits a text at delimiters that are not escaped. Can be rewound."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._at = 0
        self._peeked: str | None = None
        self.previous: str | None = None

    def mark(self) -> int:
        """Returns the position of the next token, for `rewind`."""
        return self._at - len(self._peeked or "")

    def rewind(self, position: int) -> None:
        """Goes back to a position from `mark`."""
        self._at = position
        self._peeked = self.previous = None

    def has_next(self) -> bool:
        """Returns whether there is another token."""
        return self._peeked is not None or self._at < len(self.text)

    def next(self) -> str:
        """Reads the next token."""
        token = self._read() if self._peeked is None else self._peeked
        self._peeked, self.previous = None, token
        return token

    def next_few(self, count: int) -> str | None:
        """Reads the next `count` tokens and joins them. Returns None without reading any if there are fewer."""
        start = self.mark()
        for _ in range(count):
            if not self.has_next():
                self.rewind(start)
                return None
            self.next()
        return self.text[start : self._at]

    def consume(self, expected: str) -> bool:
        """Reads the next token that is not blank if it is `expected`. Returns whether it is."""
        if self._peeked is None:
            if not self.has_next():
                return False
            self._peeked = self._read()
        while not self._peeked.strip() and self._at < len(self.text):
            self._peeked = self._read()
        if self._peeked.strip() != expected:
            return False
        self._peeked = None
        return True

    def _read(self) -> str:
        start, escaped = self._at, False
        while self._at < len(self.text):
            char = self.text[self._at]
            if char == "\\":
                escaped = not escaped
            elif char in _DELIMITERS and not escaped:
                if start == self._at:
                    self._at += 1
                break
            else:
                escaped = False
            self._at += 1
        return self.text[start : self._at]
