"""Signed requests between workers (KIP-507), and the key that they are signed with."""

from __future__ import annotations

from typing import Any

import pytest

from actors.herder.request_signatures import sign
from actors.messages.requests import SIGNATURE_DIGESTS, PutConnector, PutTaskConfigs, Signature
from heeler.worker.part_settings import herder_settings, new_session_key
from spark_tasks.config.restart_policy import RestartPolicy
from storage.config.state import SessionKey
from storage.ids import ConnectorName
from tests.rigs.herder.world import World
from tests.rigs.worker_configs import with_

C = ConnectorName("c")
TTL_MS = 60_000

# The first bytes of what javax.crypto.Mac makes of the key "key" and the body "body".
BY_JAVA = {
    "HmacMD5": "5a3cfaf24aa41bb683c6dc14209b7ee5",
    "HmacSHA1": "70bbf6819d1037aa94ca7e7f537cbea2",
    "HmacSHA224": "1c30d7529c7d47e0dfee6028def0857a",
    "HmacSHA256": "515aae133b435d4000956731f68ae5cf",
    "HmacSHA384": "9af5e5a8f0a932a9f2d4d4f20b9465aa",
    "HmacSHA512": "b71e82b42ece244182aae00f5c418d84",
    "HmacSHA512/224": "953bd7604a89f49d98d18b60f9bbb6aa",
    "HmacSHA512/256": "5bfacb86ee262770b7eb506c21d1a627",
    "HmacSHA3-224": "de9f496d07c8e4f7599ddf6b6851ac9b",
    "HmacSHA3-256": "472d8f4f02bd633b62db7c17228531e3",
    "HmacSHA3-384": "6478683b6df5886acdd5a26bcb9189b4",
    "HmacSHA3-512": "5eff72d0b1484127342c1f4043440e78",
}


def test_signatures_of_every_algorithm_equal_javas() -> None:
    assert SIGNATURE_DIGESTS.keys() == BY_JAVA.keys()
    for name, signature in BY_JAVA.items():
        assert sign(SessionKey(b"key", "any", 0), name, b"body").signature[:16].hex() == signature, name


@pytest.mark.parametrize("name", BY_JAVA)
def test_a_new_key_is_random_and_as_long_as_javas(name: str) -> None:
    algorithm = {"inter.worker.key.generation.algorithm": name}
    key = new_session_key(with_(algorithm), 7)
    size = 64 if name in ("HmacMD5", "HmacSHA1") else len(sign(key, name, b"").signature)
    assert (key.algorithm, key.created_ms, len(key.key)) == (name, 7, size)
    assert herder_settings(with_(algorithm), "w", str, lambda _: RestartPolicy()).key_bytes == size
    assert key.key != new_session_key(with_(algorithm), 7).key
    assert len(new_session_key(with_({**algorithm, "inter.worker.key.size": "41"}), 7).key) == 6  # bytes, rounded up


def test_the_leader_renews_the_key_and_others_sign_with_the_new_one() -> None:
    world = World(2, settings={"key_ttl_ms": TTL_MS, "verification_algorithms": ("HmacSHA256", "HmacSHA3-512")})
    world.settle()
    world.ask("w0", PutConnector(C, {"name": "c"}, replace=False))
    world.settle()
    leader = world.nodes[world.leader]
    configs = ({"n": "0", "v": ""}, {"n": "1", "v": ""})

    def answer(signature: Signature | None) -> tuple[int, str] | None:
        request = world.ask(leader.name, PutTaskConfigs(C, configs, signature))
        world.settle()
        error = world.replies[request].error
        return error and (error.status, str(error))  # type: ignore[attr-defined]

    old = leader.state.store.session_key
    assert old is not None
    assert answer(sign(old, "HmacSHA3-512", b"body")) is None
    world.wait(old.created_ms + TTL_MS - 1 - world.now)
    world.settle()
    assert leader.state.store.session_key == old
    world.wait(1)
    world.settle()
    new = leader.state.store.session_key
    assert new is not None
    assert new.created_ms == old.created_ms + TTL_MS
    assert {node.state.store.session_key for node in world.nodes.values()} == {new}
    assert answer(sign(old, "HmacSHA256", b"body")) == (403, "Internal request contained invalid signature.")
    assert answer(sign(new, "HmacSHA256", b"body")) is None
    assert answer(None) == (400, "Internal request missing required signature")
    refused = answer(sign(new, "HmacSHA512", b"body"))
    assert refused is not None
    assert refused[0] == 400
    assert "does not support the 'HmacSHA512' key signing" in refused[1]
    assert "[HmacSHA256, HmacSHA3-512]" in refused[1]


@pytest.mark.parametrize("wanted", [{"key_bytes": 64}, {"key_algorithm": "HmacSHA512"}])
def test_a_new_leader_renews_a_key_that_differs_from_its_settings(wanted: dict[str, Any]) -> None:
    world = World(1)
    world.settle()
    old = world.nodes["w0"].state.store.session_key
    world.settings |= wanted
    other = world.add("w1")
    world.settle()
    assert other.state.store.session_key == old
    world.crash("w0")
    world.wait(1)
    world.settle()
    new = other.state.store.session_key
    assert new is not None
    assert new != old
    assert {"key_bytes": len(new.key), "key_algorithm": new.algorithm}.items() >= wanted.items()
