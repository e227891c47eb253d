"""Worker configurations: the required settings, and some more."""

from __future__ import annotations

from heeler.worker.config import WorkerConfig

BASE = {
    "bootstrap.servers": "b1:9092, b2:9092",
    "group.id": "g",
    "key.converter": "org.apache.kafka.connect.storage.StringConverter",
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    "config.storage.topic": "c",
    "offset.storage.topic": "o",
    "status.storage.topic": "s",
}


def with_(props):
    return WorkerConfig.of(BASE | props)
