"""Dead letter queues that a worker's connectors replay."""

from __future__ import annotations

from typing import Any

from confluent_kafka import Message

from tests.rigs.support import wait_until
from tests.rigs.workers import Rig

REPLAY_S = 60.0  # of a JVM that starts on a busy machine


def tolerant(queue: str) -> dict[str, str]:
    """The settings of a connector whose refused records get letters that can be replayed."""
    return {
        "errors.tolerance": "all", "errors.deadletterqueue.topic.name": queue,
        "errors.deadletterqueue.topic.replication.factor": "1",
        "errors.deadletterqueue.context.headers.enable": "true",
    }  # fmt: skip


def path_of(name: str) -> str:
    """The resource of a connector's replays."""
    return f"/connectors/{name}/dead-letters/replay"


def ended(rig: Rig, name: str, **order: Any) -> dict[str, Any]:
    """Replay a connector's queue. Returns what the replay says at its end."""
    assert rig.call("POST", path_of(name), order)["dry_run"] == order.get("dry_run", False)

    def over() -> dict[str, Any] | None:
        state: dict[str, Any] = rig.call("GET", path_of(name))
        return None if state["state"] == "RUNNING" else state

    return wait_until(over, REPLAY_S, "the end of the replay")


def done(rig: Rig, name: str, **order: Any) -> tuple[int, int, int]:
    """Replay a connector's queue. Returns how many letters were replayed, were refused again, and were left."""
    state = ended(rig, name, **order)
    assert (state["state"], state["error"]) == ("DONE", None)
    return state["replayed"], state["refused_again"], state["left"]


def mend(rig: Rig, name: str, config: dict[str, str], tasks: int = 1) -> None:
    """Change a connector; when it runs again, all of its tasks are new."""
    rig.call("PUT", f"/connectors/{name}/stop")
    rig.wait_states(name, ["STOPPED"])
    rig.create(name, config)
    rig.call("PUT", f"/connectors/{name}/resume")
    rig.wait_states(name, ["RUNNING"] * (1 + tasks), REPLAY_S)


def headers_of(message: Message) -> dict[str, str]:
    """The headers of a record as texts."""
    return {key: value.decode(errors="replace") for key, value in message.headers() or () if value is not None}
