"""Record batches and key hashes as Kafka's Java client 4.3.1 makes them; Golden.java says how to regenerate them."""

from __future__ import annotations

from pathlib import Path

_LINES = [line.split(" ") for line in Path(__file__).with_name("golden.txt").read_text().splitlines()]

BATCHES = {name: bytes.fromhex(parts[0]) for name, *parts in _LINES if name != "murmur2"}
MURMUR2 = {bytes.fromhex(parts[0]): int(parts[1]) for name, *parts in _LINES if name == "murmur2"}

TIME = 1_700_000_000_000
_HEADERS = [{"key": "hé", "value": b"v"}, {"key": "none", "value": None}, {"key": "hé", "value": b""}]

RECORDS = [
    {"offset": 10, "timestamp": TIME, "key": b"key", "value": b"value", "headers": None},
    {"offset": 11, "timestamp": TIME + 70_000, "key": None, "value": b"value " * 40, "headers": None},
    {"offset": 12, "timestamp": TIME - 5, "key": b"", "value": None, "headers": None},
    {"offset": 13, "timestamp": TIME + 1, "key": None, "value": None, "headers": None},
    {"offset": 14, "timestamp": TIME + 2, "key": b"k", "value": b"", "headers": _HEADERS},
    {"offset": 15, "timestamp": TIME + 3, "key": "\0ÿ".encode(), "value": b"end", "headers": None},
]
"""What all batches named after a codec or a kind of producer hold."""
