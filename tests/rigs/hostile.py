"""Invalid keys and values of internal topics, as a hostile or mistaken client could write them."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any

from storage.log.record import KeyValue

NAMES = ("a", "b-1", "connector-c", "", "-", "ü\u2028\u202e", "a\nFATAL forged", "x" * 40_000, "ha%2Fha/..", "0")
LEAVES: tuple[Callable[[random.Random], str], ...] = (
    lambda _: "null",
    lambda _: "true",
    lambda _: "NaN",
    lambda _: "-Infinity",
    lambda _: "1e999",
    lambda _: '""',
    lambda _: '"\\ud800"',
    lambda _: '"\\u0000\\n\\u2028"',
    lambda _: "[]",
    lambda _: "{}",
    lambda c: str(c.choice((-1, 0, 1, 2**31, -(2**31) - 1, 2**53, 2**63, 2**64, 10**300))),
    lambda c: "9" * c.choice((20, 999, 1001, 4299, 4301, 5000)),
    lambda c: "[" * (n := c.choice((50, 99, 101, 600, 900, 999, 1001, 5000))) + "]" * n,
    lambda c: '{"a":' * (n := c.choice((50, 99, 101, 600, 900, 999, 1001, 5000))) + "1" + "}" * n,
    lambda c: "[" * c.choice((10, 1000, 20_000)),
    lambda c: json.dumps("y" * c.choice((10, 10_000))),
    lambda c: json.dumps(c.choice(NAMES)),
)
CONFIG_KEYS = ("connector-{}", "task-{}-{}", "commit-{}", "target-state-{}", "restart-connector-{}", "tasks-fencing-{}",
               "session-key", "logger-cluster-{}")
CONFIG_VALUES: tuple[Any, ...] = (
    {"properties": {"connector.class": "X", "tasks.max": "2", "name": "a"}},
    {"tasks": 2}, {"tasks": 0}, {"state": "PAUSED", "state.v2": "STOPPED"}, {"state": "STARTED"},
    {"include-tasks": True, "only-failed": False}, {"task-count": 3}, {"level": "DEBUG"},
    {"key": "AAAA", "algorithm": "HmacSHA256", "creation-timestamp": 1_700_000_000_000},
)
STATUS_KEYS = ("status-connector-{}", "status-task-{}-{}", "status-topic-t:connector-{}")
STATUS_VALUES: tuple[Any, ...] = (
    {"state": "RUNNING", "trace": None, "worker_id": "w:1", "generation": 3, "version": "1"},
    {"state": "FAILED", "trace": "it broke", "worker_id": "w:1", "generation": 3},
    {"topic": {"name": "t", "connector": "a", "task": 0, "discoverTimestamp": 1_700_000_000_000}},
)
OFFSET_KEYS = ('["{}",{{"file":"f"}}]', '["{}",{{"table":{{"b":1,"a":[1.5,null]}}}}]', '["{}",{{}}]', '["{}",null]')
OFFSET_VALUES: tuple[Any, ...] = ({"position": 7}, {"p": {"q": [1, 2.5]}}, {}, None, [1], "x")


def config_record(chance: random.Random) -> KeyValue:
    """A record for a config topic."""
    return _key(chance, CONFIG_KEYS), _value(chance, CONFIG_VALUES)


def status_record(chance: random.Random) -> KeyValue:
    """A record for a status topic."""
    return _key(chance, STATUS_KEYS), _value(chance, STATUS_VALUES)


def offset_record(chance: random.Random) -> KeyValue:
    """A record for an offsets topic."""
    if chance.random() < 0.3:
        return _garbled(chance, _text(chance, ["a", {"p": 1}])), _value(chance, OFFSET_VALUES)
    key = chance.choice(OFFSET_KEYS).format(json.dumps(chance.choice(NAMES))[1:-1])
    return _garbled(chance, key.encode()), _value(chance, OFFSET_VALUES)


def _key(chance: random.Random, templates: tuple[str, ...]) -> bytes:
    number = chance.choice(("0", "1", "2", "-1", "+1", "007", "", "x", "99999999999", "1" * 5000, "0" * 5000 + "1"))
    key = chance.choice(templates).format(chance.choice(NAMES), number)
    return _garbled(chance, key.encode())


def _value(chance: random.Random, templates: tuple[Any, ...]) -> bytes | None:
    roll = chance.random()
    if roll < 0.05:
        return None
    if roll < 0.1:
        return chance.randbytes(chance.randrange(40))
    return _garbled(chance, _text(chance, chance.choice(templates)))


def _text(chance: random.Random, template: Any) -> bytes:
    """The template as JSON, with some of its parts replaced."""

    def text(value: Any) -> str:
        if chance.random() < 0.12:
            return chance.choice(LEAVES)(chance)
        if isinstance(value, dict):
            return "{" + ",".join(f"{json.dumps(k)}:{text(v)}" for k, v in value.items()) + "}"
        return "[" + ",".join(map(text, value)) + "]" if isinstance(value, list) else json.dumps(value)

    return text(template).encode(errors="surrogatepass")


def _garbled(chance: random.Random, data: bytes) -> bytes:
    """Mostly the unchanged bytes; otherwise with bytes changed, cut, duplicated or inserted, or in another encoding."""
    roll = chance.random()
    if roll < 0.7 or not data:
        return data
    at = chance.randrange(min(len(data), 60))
    match int(roll * 100) % 5:
        case 0:
            return data[:at] + chance.randbytes(1) + data[at + 1 :]
        case 1:
            return data[:at]
        case 2:
            return data[:at] + data[at : at + 8] * 3 + data[at:]
        case 3:
            return data[:at] + chance.randbytes(3) + data[at:]
        case _:
            return data.decode(errors="replace").encode(chance.choice(("utf-16", "utf-32-be", "utf-8-sig")))
