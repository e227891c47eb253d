"""Importing this makes a client of a registry once, without a connection: its HTTP library imports most of itself only
then. For what forks executor processes (spark/daemon.py); each of them would take 0.3 s of CPU for it.
"""

from __future__ import annotations

from confluent_kafka.schema_registry import SchemaRegistryClient

with SchemaRegistryClient({"url": "http://localhost"}):
    pass
