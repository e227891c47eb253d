"""A JVM of Java plugins without a worker: the test sends its tasks what a worker would, and sees what they send."""

from __future__ import annotations

import queue
import threading
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar

import pyarrow as pa

from heeler.java_host.connection import Event
from heeler.java_host.host import JavaHost
from spark_tasks.data.columns import RAW_SCHEMA
from spark_tasks.host_frames import AppendedPositions, Batch, records
from tests.rigs.java_jars import compile_into
from tests.rigs.java_settings import java_settings

STRINGS = "org.apache.kafka.connect.storage.StringConverter"
EVENT_S = 30.0
_OPTIONS = "-Xmx192M -XX:MaxDirectMemorySize=100M -XX:TieredStopAtLevel=1"


@contextmanager
def running_host(folder: Path) -> Iterator[JavaHost]:
    """A host with the plugins of tests/rigs/java."""
    (folder / "mode").mkdir()
    compile_into(folder / "mode" / "mode.jar")
    with zipfile.ZipFile(folder / "mode" / "mode.jar", "a") as archive:
        archive.writestr("version.txt", "7.1")  # of ModeSource
    settings = java_settings({"java.plugins.jvm.options": _OPTIONS})
    host = JavaHost(lambda _: (str(folder), "only_scan"), settings)
    try:
        yield host
    finally:
        host.close()


class LoneTask:
    """A task in the host. `more`: of the connector's configuration."""

    made: ClassVar[list[LoneTask]] = []

    def __init__(self, host: JavaHost, op: str, notes: Path, task_class: str, *, version: str = "1",
                 order: Mapping[str, object] | None = None, own: Mapping[str, str] | None = None, **more: str) -> None:
        self.notes = notes
        self.offsets: list[tuple[str, str]] = []
        self._events: queue.Queue[Event] = queue.Queue()
        self.listens = threading.Event()
        """Unless it is set, the task's connection is not read, as by a worker whose queue is full."""
        self.listens.set()
        self.connection = host.connect(self._take, lambda: self.offsets, "c-0", "c")
        class_name = task_class.partition("$")[0]
        connector = {"name": "c", "connector.class": class_name, "key.converter": STRINGS,
                     "value.converter": "heeler.tests.Script$Strict", "value.converter.notes": str(notes), **more}
        config = {"task.class": task_class, "notes": str(notes), **(own or {})}
        self.made.append(self)
        self.connection.tell(op, name="c", task=0, **{"class": class_name, "version": version}, connector=connector,
                             config=config, **(order or {}))

    def _take(self, event: Event) -> None:
        self.listens.wait(EVENT_S)
        self._events.put(event)

    def give(self, *values: str) -> None:
        """Sends these values as the records from offset 0 of t-0."""
        rows = [{"offset": n, "timestamp": n, "value": value.encode()} for n, value in enumerate(values)]
        raw = pa.RecordBatch.from_pylist(rows, schema=RAW_SCHEMA)
        self.connection.give(records("t", 0, 0, len(values), raw, reset=False))

    def event(self) -> Event:
        """The next event, without those about metrics and records that are being processed."""
        while True:
            event = self._events.get(timeout=EVENT_S)
            if not isinstance(event, Mapping) or event.get("op") not in {"metrics", "tick"}:
                return event

    def metrics(self) -> list[Mapping[str, object]]:
        """Those that the task reports next. Drops the events before."""
        while True:
            event = self._events.get(timeout=EVENT_S)
            if isinstance(event, Mapping) and event.get("op") == "metrics":
                return list(event["values"])

    def until(self, op: str) -> list[object]:
        """Everything up to the message `op`: of a frame its values, offsets, signal and `more`, of a message its op, of
        "commit" also the offsets.
        """
        found: list[object] = []
        event: Event = {}
        while not isinstance(event, Mapping) or event.get("op") != op:
            event = self.event()
            if isinstance(event, Batch):
                values = [value.decode() for value in event.raw.column("value").to_pylist()]
                found.append((values, [offset for _, offset in event.offsets], event.signal, event.more))
            else:
                assert isinstance(event, Mapping), event
                assert op == "failed" or event["op"] != "failed", event
                found.append(("commit", event["offsets"]) if event["op"] == "commit" else event["op"])
        return found

    def acknowledge(self, *frames: Batch) -> None:
        """As the worker does when frames are committed, of which this one is the last."""
        places = [AppendedPositions(frame.number, len(frame.raw)).to_json() for frame in frames]
        self.connection.tell("acknowledge", frame=frames[-1].number if frames else 0, places=places)

    def noted(self) -> list[str]:
        """The calls that the task has noted."""
        return self.notes.read_text().splitlines() if self.notes.exists() else []


def scripted(host: JavaHost, notes: Path, polls: str, *, own: Mapping[str, str] | None = None, boundaries: bool = False,
             converted: Sequence[str] | None = None, **more: str) -> LoneTask:
    """A task of tests/rigs/java/Script.java, which polls this. `converted`: what the worker would convert."""
    return LoneTask(host, "source", notes, "heeler.tests.Script$Scripted",
                    order={"boundaries": boundaries, "converted": converted},
                    own={"polls": polls, **(own or {})}, **more)


def noting(host: JavaHost, notes: Path, *, flush: int = 60_000, own: Mapping[str, str] | None = None, **more: str
           ) -> LoneTask:
    """A task of tests/rigs/java/NoteSink.java that has started."""
    task = LoneTask(host, "sink", notes, "heeler.tests.NoteSink$Noting", version="7.2",
                    own=own,
                    order={"group": "connect-c", "maxPollRecords": 1, "flush": flush}, topics="t", **more)
    assert task.until("started") == ["started"]
    return task


def noting_partition(host: JavaHost, notes: Path, *, own: Mapping[str, str] | None = None, **more: str) -> LoneTask:
    """The same, with the partition t-0 open."""
    task = noting(host, notes, own=own, **more)
    task.connection.tell("open", places=[("t", 0, 0)], generation=1, member="me")
    assert task.until("opened") == ["opened"]
    return task
