"""Java connectors of tests: their workers, their configurations, and what they have written."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

from tests.rigs.java_jars import plugin_folder
from tests.rigs.support import wait_until
from tests.rigs.workers import PATIENT, PLUGINS, Kafka, Rig, processes_of, running_worker

FILE_SOURCE = "org.apache.kafka.connect.file.FileStreamSourceConnector"
FILE_SINK = "org.apache.kafka.connect.file.FileStreamSinkConnector"
MODE = "heeler.tests.ModeSource"
NOTES = "heeler.tests.NoteSink"
PLAIN = "heeler.tests.PlainSink"
LONGS = {"value.converter": "org.apache.kafka.connect.converters.LongConverter"}
COMPILED_S = 170.0  # numba, where it has compiled nothing yet
SLOW_S = 60.0  # a JVM starts on a busy machine


@contextmanager
def worker_with_jars(kafka: Kafka, folder: Path, name: str, options: str = "", **more: str) -> Iterator[Rig]:
    """A worker with jars in its plugin.path, and records that they have written. `options`: of the JVM."""
    jars = plugin_folder(folder / "jars")
    settings = {
        "plugin_path": f"{PLUGINS},{jars}", "java_plugins_prefer": f"{FILE_SOURCE},{FILE_SINK}",
        "offset_flush_interval_ms": "500", "exactly_once_source_support": "enabled",
        "java_plugins_jvm_options": f"-Xmx128M -XX:TieredStopAtLevel=1 {options}".strip(), **more}
    with running_worker(kafka, folder / "worker", name, **settings, **PATIENT) as rig:
        rig.create("warm-java", counting(f"warm-{name}"))
        rig.wait_records(f"warm-{name}", 10, COMPILED_S)
        rig.tidy()
        yield rig


def counting(topic: str, mode: str = "count", **more: str) -> dict[str, str]:
    """The configuration of a source that counts."""
    return {"connector.class": MODE, "topic": topic, "mode": mode, "records": "10", **LONGS, **more}


def jvms(rig: Rig) -> list[psutil.Process]:
    """The processes of the worker's hosts."""
    return [p for p in processes_of(rig.process) if p.name() == "java" and "heeler.host.Host" in p.cmdline()]


def jvm(rig: Rig) -> psutil.Process:
    """The host's process."""
    (found,) = jvms(rig)
    return found


def numbers(rig: Rig, topic: str) -> list[int]:
    """The numbers that a counting source has written."""
    return [int.from_bytes(m.value() or b"", "big") for m in rig.kafka.messages(topic)]


def offsets(rig: Rig, name: str) -> list[dict[str, int]]:
    """The offsets of a source."""
    return [o["offset"] for o in rig.call("GET", f"/connectors/{name}/offsets")["offsets"]]


def wait_offset(rig: Rig, name: str, wanted: dict[str, int]) -> None:
    """Until a source has come so far."""

    def there() -> bool:
        found = offsets(rig, name)
        assert found == [wanted], f"{name} is at {found}; {rig.rest.failure(name)}"
        return True

    wait_until(there, SLOW_S, f"{name} to be at {wanted}")


def lines_of(rig: Rig, name: str) -> Path:
    """Create a source of a growing file, and wait until its first line is written. Returns the file."""
    file = rig.folder / "lines"
    file.write_text("one\n")
    rig.create(name, {"connector.class": FILE_SOURCE, "file": str(file), "topic": name}, ["RUNNING", "RUNNING"])
    wait_offset(rig, name, {"position": 4})
    return file


def committed(rig: Rig, name: str) -> dict[tuple[str, int], int]:
    """The offsets of a sink."""
    return rig.kafka.committed(f"connect-{name}")


def noting(rig: Rig, topic: str, **more: str) -> dict[str, str]:
    """The configuration of a sink that notes its calls."""
    return {"connector.class": NOTES, "topics": topic, "notes": str(rig.folder / "notes"), **more}


def notes(rig: Rig, name: str = "notes") -> list[str]:
    """The calls of a sink."""
    file = rig.folder / name
    return file.read_text().splitlines() if file.exists() else []


def wait_notes(rig: Rig, *wanted: str) -> None:
    """Wait until a sink has been called with all of these."""
    wait_until(lambda: [n for n in wanted if n not in notes(rig)] == [], SLOW_S, f"{wanted}")
