"""The cost of watching the ends of the partitions of many idle sink tasks.

    python -m tests.benchmarks.bench_watcher [--tasks 500] [--rate 5000] [--seconds 20]

Each task has a partition, gets rate/tasks records a second, and arms itself again as soon as it is woken. Prints the
CPU of the process that watches, which the machine's load changes little, and how often tasks are woken.
"""

from __future__ import annotations

import argparse
import queue
import subprocess
import sys
import threading
import time

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from heeler.embedded_kafka.broker import EmbeddedBroker
from spark_tasks.kafka.cluster import KafkaCluster
from spark_tasks.kafka.watcher import EndWatcher

PARTITIONS = 10


def watch(servers: str, tasks: int, seconds: float) -> None:
    """The process that is measured."""
    watcher = EndWatcher(KafkaCluster({"bootstrap_servers": servers}))
    woken: queue.SimpleQueue[int] = queue.SimpleQueue()
    places = {n: (f"t-{n // PARTITIONS}", n % PARTITIONS) for n in range(tasks)}

    def arm(number: int) -> None:
        ends = watcher.ends([places[number]], "read_uncommitted")
        if not watcher.arm(number, ends, "read_uncommitted", lambda: woken.put(number)):
            woken.put(number)

    for number in places:
        arm(number)
    count, begun, cpu = 0, time.monotonic(), time.process_time()
    while time.monotonic() - begun < seconds:
        try:
            arm(woken.get(timeout=0.1))
            count += 1
        except queue.Empty:
            continue
    took = time.monotonic() - begun
    sys.stdout.write(f"{tasks} tasks: {(time.process_time() - cpu) / took:.2f} s of CPU a second, "
                     f"{count / took:.0f} tasks woken a second\n")
    watcher.close()


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=int, default=500)
    parser.add_argument("--rate", type=int, default=5000)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--watch", help="the address of a broker: only watch")
    options = parser.parse_args()
    if options.watch:
        watch(options.watch, options.tasks, options.seconds)
        return
    with EmbeddedBroker(quick=True) as broker:
        servers = broker.bootstrap_servers
        admin = AdminClient({"bootstrap.servers": servers})
        topics = [NewTopic(f"t-{n}", PARTITIONS, 1) for n in range(options.tasks // PARTITIONS)]
        for made in admin.create_topics(topics).values():
            made.result(60)
        stop = threading.Event()
        thread = threading.Thread(target=_produce, args=(servers, options.tasks, options.rate, stop))
        thread.start()
        try:
            subprocess.run([sys.executable, "-m", __spec__.name, "--watch", servers, "--tasks", str(options.tasks),
                            "--seconds", str(options.seconds)], check=True)
        finally:
            stop.set()
            thread.join()


def _produce(servers: str, tasks: int, rate: int, stop: threading.Event) -> None:
    producer = Producer({"bootstrap.servers": servers, "linger.ms": 5})
    begun, sent = time.monotonic(), 0
    while not stop.wait(0.01):
        due = int((time.monotonic() - begun) * rate)
        for n in range(sent, due):
            place = n % tasks
            producer.produce(f"t-{place // PARTITIONS}", b"x" * 100, partition=place % PARTITIONS)
        sent = due
        producer.poll(0)
    producer.flush(10)


if __name__ == "__main__":
    main()
