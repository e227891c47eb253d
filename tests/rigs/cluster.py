"""Several worker processes that form one Connect cluster, for tests."""

from __future__ import annotations

import http.client
import json
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote

from heeler.cli.client.rest_client import RestError
from heeler.cli.support.worker_process import WorkerProcess
from spark_tasks.connectors.intervals import SequenceSummary
from spark_tasks.connectors.verify import read_summary
from tests.rigs.nursery import launcher
from tests.rigs.support import wait_until
from tests.rigs.workers import JSON, READY_S, Kafka, worker_settings

SETTLE_S = 60.0  # after anything that happens to the cluster, on a busy machine
# Of datagen: four batches a second. If each record came as soon as it is due, batches would follow one another and take
# the CPU that tests beside them need; `make chaos` has it so.
PACED = {"pace.ms": "250"}
SCHEMALESS = {"value.converter": JSON, "value.converter.schemas.enable": "false"}
Parts = dict[str, tuple[str, str]]


def http_call(
    worker: WorkerProcess, method: str, path: str, body: bytes | str = b"", headers: Mapping[str, str] | None = None
) -> tuple[int, Any]:
    """Status and parsed response of a request, which is never repeated."""
    if worker.rest.tls is None:
        connection = http.client.HTTPConnection("127.0.0.1", worker.port, timeout=30)
    else:
        connection = http.client.HTTPSConnection("127.0.0.1", worker.port, timeout=30, context=worker.rest.tls)
    try:
        connection.request(method, path, body, {"Content-Type": "application/json", **(headers or {})})
        response = connection.getresponse()
        text = response.read()
        return response.status, json.loads(text) if text else None
    finally:
        connection.close()


class Cluster:
    """`size` workers of one group; a context manager. `wanted` has the number of tasks of each connector."""

    def __init__(self, kafka: Kafka, folder: Path, group: str, size: int = 3, **more: str) -> None:
        self.kafka = kafka
        self.folder = folder
        self.group = group
        self.settings = worker_settings(kafka.servers, group, **more)
        self.workers = [WorkerProcess(folder, self.settings, f"worker-{n}", launcher()) for n in range(size)]
        self.wanted: dict[str, int] = {}

    def __enter__(self) -> Self:
        for worker in self.workers:
            worker.start()
        for worker in self.workers:
            worker.wait_ready(READY_S)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        for worker in self.workers:
            worker.kill()

    # ------------------------------------------------------------ who is who
    def living(self) -> list[WorkerProcess]:
        """Workers whose process runs."""
        return [worker for worker in self.workers if worker.exit_code() is None and worker.pid]

    def leads(self, worker: WorkerProcess) -> bool:
        """Whether it is the leader: only the leader can know whether a connector that is to be deleted exists."""
        try:
            worker.rest.call("DELETE", "/connectors/there-is-none?forward=false")
        except RestError as error:
            return error.status == 404
        raise AssertionError("a connector that does not exist was deleted")

    def leader(self) -> WorkerProcess:
        """The leader, as soon as there is one."""
        return wait_until(lambda: next((w for w in self.living() if self._leads_now(w)), None), SETTLE_S, "a leader")

    def follower(self) -> WorkerProcess:
        """Any worker that is not the leader."""
        leader = self.leader()
        return next(worker for worker in self.living() if worker is not leader)

    def _leads_now(self, worker: WorkerProcess) -> bool:
        status, _ = http_call(worker, "DELETE", "/connectors/there-is-none?forward=false")
        return status == 404

    # ------------------------------------------------------------ connectors
    def create(self, name: str, config: Mapping[str, str], tasks: int) -> None:
        """Create or change a connector through any worker."""
        self.wanted[name] = tasks
        self.living()[-1].rest.put_config(name, {**config, "tasks.max": str(tasks)})

    def delete(self, name: str) -> None:
        """Delete a connector through any worker."""
        del self.wanted[name]
        self.living()[-1].rest.call("DELETE", f"/connectors/{quote(name, safe='')}")

    def parts(self, worker: WorkerProcess) -> Parts:
        """The state and worker of every connector and task, according to a worker."""
        try:
            listed = worker.rest.call("GET", "/connectors?expand=status")
        except RestError as error:
            raise AssertionError(str(error)) from error
        found: Parts = {}
        for name, about in listed.items():
            status = about["status"]
            found[name] = (status["connector"]["state"], status["connector"]["worker_id"])
            found.update({f"{name}-{t['id']}": (t["state"], t["worker_id"]) for t in status["tasks"]})
        return found

    def settled(self, *, without: Iterable[WorkerProcess] = (), even: bool = True) -> Parts:
        """Whether everything is RUNNING on living workers, and all of them agree; `even`: and distributed as evenly as
        possible.
        """
        gone = list(without)
        living = [worker for worker in self.living() if worker not in gone]
        names = {*self.wanted, *(f"{c}-{n}" for c, tasks in self.wanted.items() for n in range(tasks))}
        addresses = {f"127.0.0.1:{worker.port}" for worker in living}
        found = self.parts(living[0])
        assert set(found) == names, f"{set(found) ^ names}"
        wrong = {part: said for part, said in found.items() if said[0] != "RUNNING" or said[1] not in addresses}
        assert not wrong, wrong
        for worker in living[1:]:
            assert self.parts(worker) == found
        if even:
            for kind in (list(self.wanted), [n for n in names if n not in self.wanted]):
                loads = Counter(dict.fromkeys(addresses, 0))
                loads.update(found[name][1] for name in kind)
                assert max(loads.values()) - min(loads.values()) <= 1, loads
        return found

    def wait_settled(self, *, without: Iterable[WorkerProcess] = (), even: bool = True,
                     within: float = SETTLE_S) -> Parts:
        """Wait until `settled`."""
        parts = wait_until(lambda: [self.settled(without=without, even=even)], within, "the cluster to settle")
        return parts[0]

    # ------------------------------------------------------------ data
    def move_numbers(self, rate: int = 200, tasks: int = 3) -> None:
        """Keep writing numbered records, and check them with a sink."""
        self.kafka.create(f"{self.group}-numbers", tasks)
        self.create("numbers-in", {"connector.class": "datagen", "topic": f"{self.group}-numbers", "rate": str(rate),
                                   "streams": str(tasks), **PACED, **SCHEMALESS}, tasks)
        self.create("numbers-out", {"connector.class": "verify", "topics": f"{self.group}-numbers",
                                    "path": str(self.folder / "sums"), **SCHEMALESS}, tasks)

    def summary(self) -> SequenceSummary:
        """What has arrived so far."""
        return read_summary(self.folder / "sums")

    def numbers(self) -> dict[int, int]:
        """The highest number of each stream up to which nothing is missing."""
        streams = self.summary().streams
        gaps = {stream: seen.seen[:3] for stream, seen in streams.items() if seen.missing}
        assert not gaps, f"missing numbers: {gaps}"
        return {stream: seen.highest for stream, seen in streams.items()}

    def wait_flowing(self, more: int = 100) -> None:
        """Wait until every stream has advanced by this many records, with none missing."""
        before = {stream: seen.highest for stream, seen in self.summary().streams.items()}
        streams = int(self.wanted["numbers-in"])

        def further() -> bool:
            now = self.numbers()
            assert len(now) == streams, now
            assert all(now[s] >= before.get(s, 0) + more for s in now), (before, now)
            return True

        wait_until(further, SETTLE_S, "data to flow")

    def statuses(self) -> list[tuple[str, Any]]:
        """The status topic: key and parsed value of each record, in order."""
        import json

        return [(m.key().decode(), json.loads(m.value()) if m.value() else None)
                for m in self.kafka.messages(self.settings["status.storage.topic"])]
