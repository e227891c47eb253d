"""Asks Java's parser which bytes are a message. `python -m tests.golden.protobuf.record` writes golden.jsonl.gz
anew.

`python -m tests.golden.protobuf.record --cases 20000 --seed 7` compares so many new payloads and writes nothing; the
exit status is 1 where heeler differs.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from heeler.embedded_kafka.jars import JarSet
from tests.golden.beside_java import Recording
from tests.golden.protobuf.ours import MESSAGE, difference, file

_JARS = JarSet("Protobuf 4.31.1", (("com.google.protobuf", "protobuf-java", "4.31.1"),))
_WIRE_TYPES = {"bool": 0, "int32": 0, "sint64": 0, "uint64": 0, "double": 1, "fixed64": 1, "float": 5, "fixed32": 5}
_KNOWN = [(member.number, 2 if member.repeated else _WIRE_TYPES.get(member.kind, 2)) for member in MESSAGE.members]
_NUMBERS = [*range(1, 17), 0, 19000, 2**29 - 1]
_VALUES = [0, 1, 127, 128, 2**31, 2**32, 2**63, 2**64 - 1]
_CONTENTS = [b"", b"abc", "ü".encode(), b"\xff", b"\x01\x02\x80", b"\x08\x05", b"\x08\x05\x12\x01x", b"\x80" * 3,
             bytes(8), bytes(7)]  # fmt: skip


def payloads(seed: int) -> Iterator[dict[str, Any]]:
    """Random messages, most of them damaged."""
    made, described = _Payloads(random.Random(seed)), file()
    while True:
        yield {"file": described, "payload": made.payload().hex()}


class _Payloads:
    def __init__(self, chance: random.Random) -> None:
        self._chance = chance

    def payload(self) -> bytes:
        if self._maybe(0.05):
            return self._chance.randbytes(self._chance.randint(1, 6))
        whole = b"".join(self._field(0) for _ in range(self._chance.randint(0, 3)))
        return whole[: self._chance.randint(0, len(whole))] if self._maybe(0.15) else whole

    def _field(self, depth: int) -> bytes:
        number, kind = self._chance.choice(_NUMBERS), self._chance.choice([0, 0, 1, 2, 2, 2, 5, 3, 4, 6, 7])
        if self._maybe(0.4):
            number, kind = self._chance.choice(_KNOWN)
        tag = self._varint(number << 3 | kind, odd=0.07)
        match kind:
            case 0:
                return tag + self._varint(self._chance.choice(_VALUES), odd=0.15)
            case 1 | 5:
                size = 8 if kind == 1 else 4
                return tag + bytes(self._chance.randint(size if self._maybe(0.9) else 0, size))
            case 2:
                content = self._field(depth + 1) if depth < 3 and self._maybe(0.2) else self._chance.choice(_CONTENTS)
                wrong = [len(content) + 1, max(0, len(content) - 1), 2**31 - 1, 2**31, 2**32 - 1]
                size = self._chance.choice(wrong) if self._maybe(0.1) else len(content)
                return tag + self._varint(size) + content
            case 3:
                inner = [self._field(depth + 1) for _ in range(self._chance.randint(0, 2)) if depth < 3]
                end = number + (number < 2**29 - 1 and self._maybe(0.2))
                return tag + b"".join(inner) + (b"" if self._maybe(0.1) else self._varint(end << 3 | 4))
        return tag

    def _varint(self, value: int, *, odd: float = 0) -> bytes:
        """Written with as few bytes as possible or, with a probability of `odd`, with more, or without an end. Java
        takes the tenth byte for 1, whatever it is, so zero is only at other places.
        """
        out = []
        while value > 127:
            out.append(value & 127 | 128)
            value >>= 7
        if not self._maybe(odd):
            return bytes([*out, value])
        longer = bytes([*out, value | 128])
        if len(longer) < 9 and self._maybe(0.5):
            return longer + b"\x80" * self._chance.randint(0, 8 - len(longer)) + b"\0"
        return longer + b"\xff" * self._chance.randint(1, 12)

    def _maybe(self, probability: float) -> bool:
        return self._chance.random() < probability


if __name__ == "__main__":
    sys.exit(Recording(Path(__file__).parent, _JARS, payloads, difference, "payloads").main())
