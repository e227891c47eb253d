"""Debezium for tests: its jars from Maven Central, its configuration, and its events as a reader sees them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from heeler.java_host.install import Coordinates, install
from tests.rigs.postgres import Postgres
from tests.rigs.support import wait_until
from tests.rigs.workers import JSON, Kafka

SOURCE, SINK = "debezium-connector-postgres:3.7.0.Final", "debezium-connector-jdbc:3.5.0.Final"
CONVERTERS = {"key.converter": JSON, "value.converter": JSON}
_WHEN = ("ts_ms", "ts_us", "ts_ns")


def jars(folder: Path, *names: str) -> Path:
    """The plugins in a folder for plugin.path."""
    for name in names:
        install(Coordinates.parse(f"io.debezium:{name}"), folder, print)
    return folder


def source(postgres: Postgres, *tables: str, **more: str) -> dict[str, str]:
    """The configuration of a source connector, exactly once; `more`: with underscores instead of dots."""
    return {
        "connector.class": "io.debezium.connector.postgresql.PostgresConnector", "plugin.name": "pgoutput",
        "topic.prefix": "shop", "table.include.list": ",".join(f"public.{table}" for table in tables),
        "exactly.once.support": "required", "database.hostname": "127.0.0.1", "database.port": str(postgres.port),
        "database.user": "postgres", "database.password": "any", "database.dbname": "postgres", **CONVERTERS,
        **{key.replace("_", "."): value for key, value in more.items()}}


def events(kafka: Kafka, topic: str) -> list[tuple[str, int, int | None]]:
    """(operation, id, amount) of each; a tombstone has no operation."""
    found: list[tuple[str, int, int | None]] = []
    for message in kafka.messages(topic):
        key = json.loads(message.key() or b"")["payload"]["id"]
        raw = message.value()
        if raw is None:
            found.append(("tombstone", key, None))
            continue
        event = json.loads(raw)["payload"]
        found.append((event["op"], key, event["after"] and event["after"]["amount"]))
    return found


def wait_events(kafka: Kafka, topic: str, wanted: Sequence[tuple[str, int, int | None]], within: float) -> None:
    """Wait until there are this many events; they have to be these, in this order."""

    def there() -> bool:
        assert kafka.end(topic)
        found = events(kafka, topic)
        assert len(found) >= len(wanted), f"{len(found)} of {len(wanted)} events"
        return True

    wait_until(there, within, f"{len(wanted)} events in {topic}")
    assert events(kafka, topic) == list(wanted)


def whole(kafka: Kafka, topics: Iterable[str]) -> list[Any]:
    """The complete content of each event (key, headers, value with its schema), except when the connector saw it, the
    number that each run of a connector chooses and, in a snapshot, the database's position and time.
    """
    found = []
    for message in (message for topic in topics for message in kafka.messages(topic)):
        value = None if message.value() is None else json.loads(message.value() or b"")
        if value is not None:
            about = value["payload"]["source"]
            for key in _WHEN:
                value["payload"].pop(key)
            if about["snapshot"] != "false":
                for key in (*_WHEN, "lsn", "txId", "sequence"):
                    about.pop(key)
        headers = [(name, None if name == "__debezium.context.runId" else value)
                   for name, value in message.headers() or ()]
        found.append((message.key(), headers, value))
    return found
