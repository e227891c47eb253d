"""Every key of a distributed worker's file with its type, default and meaning (those of Kafka Connect 4.3)."""

from __future__ import annotations

from typing import Any

from actors.messages.requests import SIGNATURE_DIGESTS
from heeler.java_host.settings import DISCOVERY, GRACE, JAVA_KEYS
from heeler.worker.keys.clients import CLIENT_KEYS
from rest.server.keys import REST_KEYS
from spark_tasks.config import restart_policy
from spark_tasks.config.definition import (
    ConfigDef,
    ConfigKey,
    Importance,
    OneOf,
    OneOfIgnoringCase,
    Rule,
    Type,
    Validator,
    ValidList,
    at_least,
    between,
)
from spark_tasks.config.record_limit import DEFAULT_MAX_RECORD_BYTES, LARGEST_MAX_RECORD_BYTES, MAX_RECORD_KEY
from spark_tasks.process.log_levels import LEVELS
from spark_tasks.process.log_lines import JSON, TEXT
from spark_tasks.spark.master import FORMS, MASTER, is_master
from spark_tasks.spark.residents.settings import BATCH, IDLE_MS, MAX_PROCESSES, RESIDENT, SLOW_MS

_HIGH, _MEDIUM, _LOW = Importance.HIGH, Importance.MEDIUM, Importance.LOW
_INT_MAX = 2**31 - 1
MACS = tuple(SIGNATURE_DIGESTS)


_REPLICATION = Rule("a positive number up to the number of brokers, or -1 for the brokers' default",
                     lambda v: v == -1 or (v is not None and v > 0))
_PARTITIONS = Rule("a positive number, or -1 for the brokers' default", lambda v: v == -1 or (v is not None and v > 0))
_MAC_LIST = Rule(f"one or more of {', '.join(MACS)}", lambda v: bool(v) and set(v) <= set(MACS))


def _key(name: str, kind: Type, default: Any, importance: Importance, doc: str, validator: Validator | None = None
         ) -> ConfigKey:
    return ConfigKey(name, kind, default=default, validator=validator, importance=importance, doc=doc)


def _required(name: str, kind: Type, doc: str, validator: Validator | None = None) -> ConfigKey:
    return ConfigKey(name, kind, validator=validator, importance=_HIGH, doc=doc)


def _text(name: str, doc: str) -> ConfigKey:
    return _required(name, Type.STRING, doc, Rule("a name", bool))


GROUP_KEYS = ConfigDef(
    _text("group.id", "The name of the worker group; workers with the same one share connectors and tasks."),
    _key("session.timeout.ms", Type.INT, 10_000, _HIGH,
         "A worker that has sent no heartbeat for this long is removed from the group; within the brokers' limits.",
         at_least(1)),
    _key("heartbeat.interval.ms", Type.INT, 3_000, _HIGH,
         "Time between heartbeats; less than session.timeout.ms, typically a third of it.", at_least(1)),
    _key("rebalance.timeout.ms", Type.INT, 60_000, _HIGH,
         "How long a worker may take to stop work and rejoin when the group rebalances.", at_least(1)),
    _key("worker.sync.timeout.ms", Type.INT, 3_000, _MEDIUM,
         "How long a worker that is behind the others tries to catch up with the config topic before it leaves."),
    _key("worker.unsync.backoff.ms", Type.INT, 300_000, _MEDIUM,
         "How long a worker that could not catch up stays out of the group."),
    _key("connect.protocol", Type.STRING, "sessioned", _LOW,
         "How the group rebalances: eager stops all work at every change, compatible only the work that moves; "
         "sessioned also signs requests between workers.", OneOf("eager", "compatible", "sessioned")),
    _key("scheduled.rebalance.max.delay.ms", Type.INT, 300_000, _LOW,
         "How long the work of a lost worker is kept for its return.", between(0, _INT_MAX)),
    _key("exactly.once.source.support", Type.STRING, "disabled", _HIGH,
         "Whether source tasks may write records and offsets in one transaction. In a running group, first set "
         "preparing on all workers.", OneOfIgnoringCase("disabled", "preparing", "enabled")),
    _key("inter.worker.key.ttl.ms", Type.INT, 3_600_000, _LOW, "The lifetime of the key that signs requests between "
         "workers; 0 for no limit.", between(0, _INT_MAX)),
    _key("inter.worker.key.generation.algorithm", Type.STRING, "HmacSHA256", _LOW,
         "The algorithm that the key is generated for.", OneOf(*MACS)),
    _key("inter.worker.key.size", Type.INT, None, _LOW, "The key size in bits; unset: the algorithm's default.",
         Rule("unset or at least 40", lambda v: v is None or v >= 40)),
    _key("inter.worker.signature.algorithm", Type.STRING, "HmacSHA256", _LOW,
         "The algorithm that signs requests between workers.", OneOf(*MACS)),
    _key("inter.worker.verification.algorithms", Type.LIST, ["HmacSHA256"], _LOW,
         "The signatures that are accepted; inter.worker.signature.algorithm must be among them.", _MAC_LIST),
)

STORAGE_KEYS = ConfigDef(
    *(_text(f"{kind}.storage.topic", f"The compacted topic that keeps {what}; the same for all workers of the group.")
      for kind, what in (("config", "connector configurations"), ("offset", "offsets of source connectors"),
                         ("status", "states of connectors and tasks"))),
    *(_key(f"{kind}.storage.replication.factor", Type.SHORT, 3, _LOW,
           f"Replicas of {kind}.storage.topic when heeler creates it.", _REPLICATION)
      for kind in ("config", "offset", "status")),
    _key("offset.storage.partitions", Type.INT, 25, _LOW, "Partitions of offset.storage.topic.", _PARTITIONS),
    _key("status.storage.partitions", Type.INT, 5, _LOW, "Partitions of status.storage.topic.", _PARTITIONS),
)

RUNTIME_KEYS = ConfigDef(
    _required("key.converter", Type.CLASS, "Converts record keys to bytes and back, unless a connector names "
              "another converter."),
    _required("value.converter", Type.CLASS, "Like key.converter, for values."),
    _key("header.converter", Type.CLASS, "org.apache.kafka.connect.storage.SimpleHeaderConverter", _LOW,
         "Like key.converter, for headers."),
    *(_key(f"{kind}.converter.plugin.version", Type.STRING, None, _LOW,
           f"Version or range of versions of {kind}.converter (KIP-891).") for kind in ("key", "value", "header")),
    _key(GRACE, Type.LONG, 5_000, _LOW,
         "How long all tasks together may take to stop."),
    _key("offset.flush.interval.ms", Type.LONG, 60_000, _LOW, "Time between two commits of a task's offsets."),
    _key("offset.flush.timeout.ms", Type.LONG, 5_000, _LOW, "How long such a commit may take before it is cancelled."),
    _key("plugin.path", Type.LIST, None, _LOW, "Folders with plugins, in addition to the installed ones.",
         Rule("unset or folders separated by commas", lambda v: v is None or all(v))),
    _key(DISCOVERY, Type.STRING, "hybrid_warn", _LOW,
         "How plugins in jars are found: hybrid_warn and only_scan also find those that no manifest names, hybrid_fail "
         "refuses to start with one, service_load leaves them out.",
         OneOfIgnoringCase("only_scan", "service_load", "hybrid_warn", "hybrid_fail")),
    _key("config.providers", Type.LIST, [], _LOW,
         "Names of config providers; each has its config.providers.NAME.class and .param.* (KIP-297).", ValidList()),
    _key("connector.client.config.override.policy", Type.STRING, "All", _MEDIUM,
         "Which producer.override.*, consumer.override.* and admin.override.* a connector may set: All, None, "
         "Principal, Allowlist, or Kafka Connect's class of that name."),
    _key("connector.client.config.override.allowlist", Type.LIST, [], _MEDIUM,
         "The client settings that the Allowlist policy permits (KIP-1188).", ValidList()),
    _key("topic.creation.enable", Type.BOOLEAN, True, _LOW,
         "Whether topic.creation.* of source connectors creates topics (KIP-158)."),
    _key("metrics.sample.window.ms", Type.LONG, 30_000, _LOW, "The time that one sample of a rate covers.",
         at_least(0)),
    _key("metrics.num.samples", Type.INT, 2, _LOW, "Samples kept for a rate.", at_least(1)),
    _key("metrics.recording.level", Type.STRING, "INFO", _LOW, "The level of detail of metrics.",
         OneOf("INFO", "DEBUG")),
    _key("metric.reporters", Type.LIST, ["org.apache.kafka.common.metrics.JmxReporter"], _LOW,
         "Java classes that report metrics: ignored. heeler serves its metrics for Prometheus at GET /metrics.",
         ValidList()),
)

HEELER_KEYS = ConfigDef(
    _key("heeler.log.level", Type.STRING, "INFO", _MEDIUM,
         "The log level; heeler.log.level.LOGGER sets it for one logger and those below it.",
         OneOfIgnoringCase(*LEVELS)),
    _key("heeler.log.format", Type.STRING, TEXT, _LOW,
         "text for lines in Kafka Connect's layout, json for one JSON object per line.", OneOf(TEXT, JSON)),
    _key(MAX_RECORD_KEY, Type.INT, DEFAULT_MAX_RECORD_BYTES, _MEDIUM,
         "The largest record that a sink task reads, in bytes uncompressed. Its Python worker may need several times "
         "as much memory.", between(1, LARGEST_MAX_RECORD_BYTES)),
    _key("heeler.executors.mode", Type.STRING, RESIDENT, _MEDIUM,
         "How Spark runs the splits of batches: resident uses long-running processes that take one split after "
         "another, batch uses Spark jobs, each for one or several batches.", OneOf(RESIDENT, BATCH)),
    _key("heeler.executors.max", Type.INT, MAX_PROCESSES, _MEDIUM,
         "The maximum number of executor processes; one connector may use at most three quarters of them. Processes "
         "are started on demand; a reader that waits for something holds one.", at_least(1)),
    _key("heeler.executors.running.max", Type.INT, None, _LOW,
         "The maximum number of splits that use the CPU at the same time, counted separately for connectors whose "
         "splits are brief and for all others, and the maximum number of splits of one task that run at the same time; "
         "unset: two for each core. A split that waits for something else, or has been running for more than three "
         "seconds, does not count.",
         Rule("unset or at least 1", lambda v: v is None or v >= 1)),
    _key("heeler.executors.idle.ms", Type.LONG, IDLE_MS, _LOW, "How long an unused executor process is kept.",
         at_least(0)),
    _key("heeler.executors.slow.ms", Type.LONG, SLOW_MS, _LOW,
         "A split that runs for longer than this, or waits this long for a process, is logged with the place where it "
         "hangs; 0 for never.", at_least(0)),
    _key("heeler.executors.port", Type.INT, 0, _LOW,
         "The port at spark.driver.host to which the executors of a cluster connect, with TLS; 0 for any port.",
         between(0, 65535)),
    _key("heeler.spark.start.delay.ms", Type.LONG, None, _LOW,
         "How long after the first batch a local Spark is started; unset: when nothing has run for three seconds, or "
         "after twenty seconds. Until then, splits run in the worker's own executor processes. A worker that ends "
         "earlier never starts Spark, unless a plugin asks for a session.",
         Rule("unset or at least 0", lambda v: v is None or v >= 0)),
    _key(MASTER, Type.STRING, None, _MEDIUM,
         "Where Spark runs; unset for this machine. All spark.* settings go to Spark.",
         Rule(f"unset, {FORMS}", lambda v: v is None or is_master(v))),
)

WORKER_KEYS = GROUP_KEYS.plus(
    STORAGE_KEYS, RUNTIME_KEYS, REST_KEYS, CLIENT_KEYS, HEELER_KEYS, JAVA_KEYS, restart_policy.WORKER)
"""All keys of a worker."""

HOST_KEYS = ConfigDef(*(WORKER_KEYS.keys[name] for name in (*JAVA_KEYS.keys, DISCOVERY, GRACE)))
"""Those of JavaHostSettings."""

LOG_LEVEL = "heeler.log.level."  # before a logger's name
KNOWN_PREFIXES = (
    "producer.", "consumer.", "admin.", "spark.", "config.storage.", "offset.storage.", "status.storage.",
    "config.providers.", "key.converter.", "value.converter.", "header.converter.", "listeners.https.",
    "admin.listeners.https.", LOG_LEVEL, "metrics.context.",
)
"""Prefixes of keys that are passed on to other parts, which check them."""
