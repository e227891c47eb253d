"""Connectors are created and deleted while one streams: are requests refused, how long do requests and records take?

    python -m tests.benchmarks.bench_connector_churn [--connectors 50] [--clients 4] [--rate 50]

Two workers with rest.rebalance.wait.ms. A FileStreamSink of two tasks gets `rate` records a second; clients create the
connectors, each through one of the workers, then delete them. Prints the answers by status, the slowest one, and how
old lines are when they are written.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from heeler.embedded_kafka.broker import EmbeddedBroker
from tests.benchmarks.bench_executor_kill import send
from tests.benchmarks.bench_small_tasks import Lines, quantiles
from tests.rigs.cluster import Cluster, http_call
from tests.rigs.workers import PATIENT, Kafka

PATIENCE_S = 60.0
STRING = {f"{part}.converter": "org.apache.kafka.connect.storage.StringConverter" for part in ("key", "value")}


def come_and_go(cluster: Cluster, asked: argparse.Namespace, method: str) -> tuple[Counter[int], float]:
    """The statuses of the answers, and the seconds that the slowest one took."""
    config = {"connector.class": "FileStreamSource", "file": str(cluster.folder / "missing"), "topic": "none"}

    def ask(number: int) -> tuple[int, float]:
        worker, name, begun = cluster.workers[number % 2], f"c{number}", time.perf_counter()
        if method == "POST":
            status, _ = http_call(worker, method, "/connectors", json.dumps({"name": name, "config": config}))
        else:
            status, _ = http_call(worker, method, f"/connectors/{name}")
        return status, time.perf_counter() - begun

    with ThreadPoolExecutor(asked.clients) as clients:
        answers = list(clients.map(ask, range(asked.connectors)))
    return Counter(status for status, _ in answers), max(seconds for _, seconds in answers)


def run(cluster: Cluster, asked: argparse.Namespace) -> None:
    file = cluster.folder / "lines.txt"
    cluster.kafka.create("lines", 2)
    cluster.create("sink", {"connector.class": "FileStreamSink", "topics": "lines", "file": str(file), **STRING}, 2)
    cluster.wait_settled()
    lines, over, sent = Lines([file]), threading.Event(), [0]
    sender = threading.Thread(target=send, args=(cluster.kafka.servers, "lines", asked.rate, over, sent))
    looker = threading.Thread(target=lines.until, args=(over.is_set, 10 * PATIENCE_S))
    sender.start()
    say = sys.stdout.write
    try:
        assert lines.until(lambda: lines.count > 5 * asked.rate, PATIENCE_S), "the sink does not write"
        lines.ages.clear()
        looker.start()
        for method in ("POST", "DELETE"):
            begun = time.perf_counter()
            statuses, slowest = come_and_go(cluster, asked, method)
            say(f"{method}: {dict(statuses)} within {time.perf_counter() - begun:.1f} s, the slowest {slowest:.2f} s\n")
    finally:
        over.set()
        sender.join()
        looker.join()
    late = sum(age > 1000 for age in lines.ages)
    say(f"{len(lines.ages)} lines, p50 / p99 / max: {quantiles(lines.ages)} ms; {late} older than a second\n")


def main() -> int:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--connectors", type=int, default=50)
    parser.add_argument("--clients", type=int, default=4)
    parser.add_argument("--rate", type=float, default=50.0)
    asked = parser.parse_args()
    with (
        tempfile.TemporaryDirectory(prefix="hc-") as folder,
        EmbeddedBroker(data_dir=Path(folder) / "kafka", quick=True) as broker,
        Cluster(Kafka(broker.bootstrap_servers), Path(folder), "comings", 2, rest_rebalance_wait_ms="20000",
                **PATIENT) as cluster,
    ):
        run(cluster, asked)
    return 0


if __name__ == "__main__":
    sys.exit(main())
