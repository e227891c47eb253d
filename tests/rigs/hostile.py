"""Invalid keys and values of internal topics, and what members of a group say, as a hostile or mistaken client could
write them.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from typing import Any

from actors.assignment.codec import encode_assignment, encode_metadata
from actors.assignment.protocol import Allocation, Assignment, AssignmentError, MemberMetadata, Protocol
from storage.ids import ConnectorName, ConnectorTaskId, ItemId
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
    {"state": "DESTROYED", "trace": None, "worker_id": "w0:1", "generation": 2**31 - 1},
    {"state": "UNASSIGNED", "trace": None, "worker_id": "", "generation": -(2**31)},
    {"state": "FAILED", "trace": "", "worker_id": "w0:1", "generation": 1,
     "heeler_restarts": {"count": 2**31 - 1, "cause": "x", "next": 2**53 - 1, "permanent": True},
     "heeler_stalled": {"since": 0, "what": "x"}},
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


def metadata(chance: random.Random, protocol: Protocol, known: Sequence[ItemId] = ()) -> bytes:
    """What a member says when it joins. `known`: items that there are, which it may claim to run."""
    owned = None if chance.random() < 0.2 else Allocation.of(_items(chance, known))
    said = MemberMetadata(_url(chance), chance.choice((-(2**63), -1, 0, 1, 2, 5, 2**40, 2**63 - 1)), owned)
    return _distorted(chance, encode_metadata(said, protocol))


def assignment(chance: random.Random, protocol: Protocol, leader: str, known: Sequence[ItemId] = ()) -> bytes:
    """What a leader may assign to a member."""
    said = Assignment(
        chance.choice((leader, "", "nobody", "\u2028\n" * 50)), _url(chance),
        chance.choice((-(2**63), -1, 0, 1, 2, 5, 2**40, 2**63 - 1)), Allocation.of(_items(chance, known)),
        Allocation.of(_items(chance, known)), chance.choice((-(2**31), -1, 0, 1, 2**31 - 1)),
        chance.choice(tuple(AssignmentError)))
    return _distorted(chance, encode_assignment(said, protocol))


def _url(chance: random.Random) -> str:
    return chance.choice(("", "http://w0/", "http://w1/", "http://nobody:1/", "x", "file:///etc/passwd", "http://[::1",
                          "http://w0/\r\nHost: other", "http://" + "u" * 30_000, "\u0000\u2028FATAL forged"))


def _items(chance: random.Random, known: Sequence[ItemId]) -> list[ItemId]:
    items: list[ItemId] = [one for one in known if chance.random() < 0.4]
    for _ in range(chance.choice((0, 0, 1, 5, 200))):
        name = ConnectorName(chance.choice(NAMES)[:30_000])
        items.append(name if chance.random() < 0.3 else ConnectorTaskId(name, chance.choice((0, 1, 7, 2**31 - 1))))
    if chance.random() < 0.1:
        items += [ConnectorTaskId(ConnectorName("many"), number) for number in range(chance.choice((1000, 20_000)))]
    return items


def _distorted(chance: random.Random, data: bytes) -> bytes:
    """Mostly the unchanged bytes; otherwise cut, with wrong numbers (a version, a count, a task's), or nothing."""
    if chance.random() < 0.6:
        return data
    at = chance.randrange(len(data) + 1)
    wrong = chance.choice((-1, -2, 2**31 - 1, -(2**31), 2**20)).to_bytes(4, "big", signed=True)
    return chance.choice((b"", data[:at], data[:at] + wrong + data[at + 4 :], chance.randbytes(40),
                          wrong[:2] + data[2:], data + chance.randbytes(8), data[:at] + b"\xff" * 3 + data[at:]))


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
