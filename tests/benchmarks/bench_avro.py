"""Avro with a registry: file connectors' sink and source beside Java Kafka Connect, on one broker and one registry.

    python -m tests.benchmarks.bench_avro [--harness ../shared/bench] [--records 2000000] [--reps 1]

The harness of docs/benchmarks.md (W1, W2) starts the broker and the workers, and reads all records back. The registry
is Apicurio's (tests/rigs/schema_registry.py). Java has Apicurio's AvroConverter, 2.6.13: the newest that Maven Central
has with all that it needs. Sink: Avro records to lines of text; source: lines to Avro, a HoistField before it makes
records of them.
"""

from __future__ import annotations

import io
import json
import shutil
import statistics
import struct
import sys
import tempfile
from pathlib import Path
from typing import Any

import fastavro
from confluent_kafka import Producer

from heeler.embedded_kafka.jars import JarSet, resolve
from tests.benchmarks import harness
from tests.rigs.schema_registry import RunningRegistry, running_registry

VERSION = "2.6.13.Final"
APICURIO = JarSet(f"Apicurio converter {VERSION}", (("io.apicurio", "apicurio-registry-utils-converter", VERSION),))
PROVIDED = ("connect-", "kafka-clients-", "slf4j-")  # by Kafka Connect
SCHEMA = {
    "type": "record", "name": "Order", "namespace": "bench", "fields": [
        {"name": "id", "type": "long"}, {"name": "name", "type": "string"}, {"name": "amount", "type": "double"},
        {"name": "flag", "type": "boolean"}, {"name": "pad", "type": "string"},
    ],
}  # fmt: skip
HOIST = {"transforms": "hoist", "transforms.hoist.type": "org.apache.kafka.connect.transforms.HoistField$Value",
         "transforms.hoist.field": "line"}  # fmt: skip


def converters(registry: RunningRegistry) -> dict[str, dict[str, str]]:
    """The value converter of each system: one wire format, ids of content."""
    core = registry.url.replace("ccompat/v7", "registry/v2")
    return {
        "java": {
            "value.converter": "io.apicurio.registry.utils.converter.AvroConverter",
            "value.converter.apicurio.registry.url": core, "value.converter.apicurio.registry.auto-register": "true",
            "value.converter.apicurio.registry.as-confluent": "true",
            "value.converter.apicurio.registry.use-id": "contentId",
            "value.converter.apicurio.registry.headers.enabled": "false",
        },
        "heeler": {
            "value.converter": "io.confluent.connect.avro.AvroConverter",
            "value.converter.schema.registry.url": registry.url,
        },
    }  # fmt: skip


def avro_topic(workloads: Any, rig: Any, registry: RunningRegistry, name: str, count: int) -> None:
    """Two partitions with `count` records in the registry's wire format."""
    answer = registry.ask("POST", f"subjects/{name}-value/versions", {"schema": json.dumps(SCHEMA)})
    head, parsed = struct.pack(">bI", 0, answer["id"]), fastavro.parse_schema(SCHEMA)
    workloads.create_topic(rig, name, 2)
    producer = Producer({"bootstrap.servers": rig.bootstrap, "linger.ms": 20, "batch.size": 200000,
                         "queue.buffering.max.messages": 500000})  # fmt: skip
    for i in range(count):
        out = io.BytesIO(head)
        out.seek(len(head))
        fastavro.schemaless_writer(out, parsed, {"id": i, "name": f"user-{i % 10007}", "flag": i % 3 == 0,
                                                 "amount": (i * 37 % 100000) / 100, "pad": "xxxxxxxxxxxx"})  # fmt: skip
        while True:
            try:
                producer.produce(name, out.getvalue(), partition=i & 1)
                break
            except BufferError:
                producer.poll(0.05)
    producer.flush(120)


def main() -> int:
    """Print a line for each figure and a table."""
    parser = harness.arguments(__doc__, 29190)
    parser.add_argument("--records", type=int, default=2_000_000)
    parser.add_argument("--warm", type=int, default=500_000)
    parser.add_argument("--reps", type=int, default=1)
    asked = parser.parse_args()
    rigs, workloads, rig = harness.load(asked)
    rates: dict[tuple[str, str], list[float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        plugins = Path(folder) / "plugins"
        shutil.copytree(rig.plugins, plugins)
        shutil.copytree(resolve(APICURIO), plugins / "apicurio",
                        ignore=lambda _, names: [name for name in names if name.startswith(PROVIDED)])  # fmt: skip
        systems = {
            "java": (rig.java_system(), {"plugin.path": str(plugins), "plugin.discovery": "hybrid_warn"}),
            "heeler": (harness.heeler(rigs), {}),
        }
        try:
            rig.start_broker()
            with running_registry(Path(folder)) as registry:
                for name, count in (("avro-warm", asked.warm), ("avro-full", asked.records)):
                    avro_topic(workloads, rig, registry, name, count)
                for rep in range(asked.reps):
                    for label in ("java", "heeler") if rep % 2 == 0 else ("heeler", "java"):
                        system, extra = systems[label]
                        conv = converters(registry)[label]
                        rig.wait_quiet(asked.quiet)
                        ctx = workloads.Context(rig, system, rep, asked.records, asked.warm, 0, 0, 0, None)
                        worker = rig.worker(system, rig.new_group(), extra=extra).start()
                        worker.wait_ready()
                        # The harness has no other door to one run of a workload.
                        sink, source = workloads._sink_once, workloads._source_once  # noqa: SLF001
                        sink(ctx, worker, "avro-warm", asked.warm, conv, 1)
                        source(ctx, worker, asked.warm, {**conv, **HOIST})
                        for what, got in (
                            ("sink", sink(ctx, worker, "avro-full", asked.records, conv, 1)),
                            ("source", source(ctx, worker, asked.records, {**conv, **HOIST})),
                        ):
                            rates.setdefault((what, label), []).append(got["from creation"])
                            sys.stdout.write(f"{what} {label} rep {rep}: {got}\n")
                            sys.stdout.flush()
                        rig.stop_workers()
        finally:
            rig.stop(keep=False)
    for what in ("sink", "source"):
        ours, java = (statistics.median(rates[what, label]) for label in ("heeler", "java"))
        sys.stdout.write(f"| {what} Avro, 1 task | {ours:,.0f} | {java:,.0f} | {ours / java:.1f} |\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
