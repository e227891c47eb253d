"""A request of a scenario, and the requests that many scenarios have."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

SOURCE = "org.apache.kafka.connect.file.FileStreamSourceConnector"
SINK = "org.apache.kafka.connect.file.FileStreamSinkConnector"
SIGNED = "signed"  # a step's signature: valid, or made with another key, or none
FORGED = "forged"


@dataclass(frozen=True)
class Step:
    """One request. `body` is sent as JSON, `raw` as it is; `until` is a subset of the answer to wait for."""

    name: str
    method: str
    path: str
    body: Any = None
    raw: str | None = None
    headers: dict[str, str] = field(default_factory=dict)
    until: Any = None
    signature: str | None = None


def source(**more: Any) -> dict[str, Any]:
    """A source connector's config; `tasks_max="2"` stands for tasks.max."""
    config = {"connector.class": SOURCE, "topic": "golden-lines", "file": "/dev/null"}
    return {**config, **{key.replace("_", "."): value for key, value in more.items()}}


def sink(**more: Any) -> dict[str, Any]:
    """A sink connector's config."""
    config = {"connector.class": SINK, "topics": "golden-lines", "file": "/dev/null"}
    return {**config, **{key.replace("_", "."): value for key, value in more.items()}}


def raw_config(more: str) -> str:
    """A source connector's config as text, with more members as they are."""
    return f'{{"connector.class":"{SOURCE}","topic":"t",{more}}}'


def create(name: str, config: dict[str, Any], **more: Any) -> Step:
    """POST /connectors."""
    return Step(f"create {name}", "POST", "/connectors", {"name": name, "config": config, **more})


def running(name: str, tasks: int = 1) -> Step:
    """The status once connector and tasks run."""
    states = [{"id": n, "state": "RUNNING"} for n in range(tasks)]
    return Step(f"{name} runs", "GET", f"/connectors/{name}/status",
                until={"connector": {"state": "RUNNING"}, "tasks": states})


def delete(name: str) -> Step:
    """DELETE /connectors/{name}."""
    return Step(f"delete {name}", "DELETE", f"/connectors/{name}")


def gone(name: str) -> Step:
    """The status once the leader has removed it."""
    return Step(f"{name} is gone", "GET", f"/connectors/{name}/status", until={"error_code": 404})


def has_tasks(name: str, count: int) -> Step:
    """The connector's description once the leader has its task configs."""
    tasks = [{"connector": name, "task": n} for n in range(count)]
    return Step(f"{name} has {count} tasks", "GET", f"/connectors/{name}", until={"tasks": tasks})
