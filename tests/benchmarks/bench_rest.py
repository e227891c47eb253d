"""How long REST answers take over one kept-alive connection, with a worker in memory: `python -m
tests.benchmarks.bench_rest`. Aims (Java Connect's p50): GET status 1.0 ms, GET expand of 100 connectors 5.5 ms."""

from __future__ import annotations

import http.client
import resource
import statistics
import sys
import time
from dataclasses import replace

from rest.app import create_app
from rest.server.keys import Listener
from rest.server.listeners import RestServer
from rest.server.settings import RestSettings
from storage.ids import ConnectorName, TargetState
from tests.rigs.fake_herder import FakeWorker
from tests.rigs.fake_plugins import FILE
from tests.rigs.serving import ports_of

CONNECTORS = 100
IDLE_S = 5.0


def filled(connectors: int) -> FakeWorker:
    """A worker with running connectors of two tasks each."""
    worker = FakeWorker()
    for number in range(connectors):
        name = ConnectorName(f"connector-{number:03d}")
        config = {"name": name, "connector.class": FILE + "FileStreamSourceConnector", "tasks.max": "2",
                  "topic": f"topic-{number}", "file": f"/data/input-{number}.txt", "batch.size": "2000",
                  "key.converter": "org.apache.kafka.connect.storage.StringConverter"}
        worker.put(name, config, TargetState.STARTED, 2)
    return worker


def percentiles(seconds: list[float]) -> str:
    """Milliseconds."""
    cuts = statistics.quantiles(seconds, n=100)
    return f"p50 {cuts[49] * 1e3:.2f} ms  p99 {cuts[98] * 1e3:.2f} ms  ({len(seconds)} requests)"


def measure(port: int, path: str, count: int) -> list[float]:
    """Seconds of each request."""
    connection = http.client.HTTPConnection("127.0.0.1", port)
    seconds = []
    for _ in range(count):
        begun = time.perf_counter()
        connection.request("GET", path, headers={"Accept": "application/json"})
        response = connection.getresponse()
        response.read()
        seconds.append(time.perf_counter() - begun)
        if response.status != 200:
            raise SystemExit(f"{path} answered {response.status}")
    connection.close()
    return seconds


def main() -> None:
    """Measure and print."""
    worker = filled(CONNECTORS)
    settings = replace(RestSettings(), listeners=(Listener("http", "127.0.0.1", 0),))
    begun = time.perf_counter()
    server = RestServer(settings, create_app(worker.ask, worker, settings))
    server.start()
    lines = [f"server up in {(time.perf_counter() - begun) * 1e3:.0f} ms"]
    port = ports_of(server)[0]
    for label, path, count in (
        ("GET /", "/", 500),
        ("GET status", "/connectors/connector-042/status", 2000),
        ("GET connectors", "/connectors", 1000),
        ("GET expand=status&expand=info", "/connectors?expand=status&expand=info", 500),
    ):
        measure(port, path, 50)
        lines.append(f"{label}: {percentiles(measure(port, path, count))}")
    before = time.process_time()
    time.sleep(IDLE_S)
    lines.append(f"idle: {(time.process_time() - before) / IDLE_S * 100:.2f} % of a core")
    lines.append(f"memory: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MiB at most")
    server.stop()
    sys.stdout.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
