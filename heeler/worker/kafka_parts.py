"""The worker's own Kafka clients: admin, internal topics, and the logs and writers over them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

from heeler.worker.config import WorkerConfig
from spark_tasks.config.types import Type, parse_type
from spark_tasks.errors import ConnectError
from spark_tasks.kafka.admin import KafkaAdmin
from spark_tasks.kafka.client_config import DEFAULTS, client_settings
from storage.log.interface import PrivilegedWriter
from storage.log.internal_topics import connector_offsets, ensure_topics, internal_topics
from storage.log.privileged_writer import KafkaPrivilegedWriter
from storage.log.topic_log import KafkaTopicLog
from storage.offsets.own_topic import OwnOffsets

_TIMEOUT = "default.api.timeout.ms"  # Kafka's key
TIMEOUT_MS = 30_000  # long enough for brokers that start at the same time


@dataclass(frozen=True, slots=True)
class KafkaParts:
    """The worker's connection to Kafka, created by `connect`. `settings`: kafka-python's client settings."""

    config: WorkerConfig
    admin: KafkaAdmin
    settings: Mapping[str, Any]
    client_id: str
    cluster_id: str

    @classmethod
    def connect(cls, config: WorkerConfig) -> KafkaParts:
        """Connects, and creates or checks the three internal topics. Raises ConnectError and ConfigError."""
        properties = config.client()
        settings = client_settings(properties)
        client_id = config["client.id"] or f"connect-{config.group_id}"
        # How long a worker that starts waits for brokers.
        timeout_ms = parse_type(_TIMEOUT, properties.get(_TIMEOUT, TIMEOUT_MS), Type.INT)
        admin = admin_client(config, settings, timeout_ms)
        with ExitStack() as cleanup:
            cleanup.callback(admin.close)
            try:
                cluster_id = admin.cluster().id
            except ConnectError as error:
                raise _unreachable(config, error) from error
            ensure_topics(admin, internal_topics(config.values, config.originals), timeout_ms / 1000)
            cleanup.pop_all()
        return cls(config, admin, settings, client_id, cluster_id)

    def log(self, kind: str) -> KafkaTopicLog:
        """The log of the config, offset or status topic."""
        names = {"config": "configs", "offset": "offsets", "status": "statuses"}
        committed = kind != "status" and self.config.exactly_once
        # The status store itself decides which writes to repeat, because a newer status may supersede one.
        session = self.config["session.timeout.ms"]
        retries = {} if kind != "status" else {
            "retries": 0, "delivery_timeout_ms": session, "request_timeout_ms": session}
        return KafkaTopicLog(self.config[f"{kind}.storage.topic"], self.settings, nullcontext(self.admin),
                             client_id=f"{self.client_id}-{names[kind]}", read_committed=committed, producer=retries,
                             session_s=float(session) / 1000)

    def connector_offsets_log(self, own: OwnOffsets) -> KafkaTopicLog:
        """The log of a connector's own offsets topic, which is created if it does not exist."""
        return KafkaTopicLog(own.topic, own.consumer, self._own_admin(own),
                             client_id=f"{self.client_id}-offsets-{own.topic}", read_committed=True,
                             producer=own.producer, session_s=self.config["session.timeout.ms"] / 1000)

    @contextmanager
    def _own_admin(self, own: OwnOffsets) -> Iterator[KafkaAdmin]:
        with closing(_admin(own.admin, f"{self.client_id}-admin-{own.topic}", TIMEOUT_MS)) as admin:
            ensure_topics(admin, [connector_offsets(self.config.values, self.config.originals, own.topic)])
            yield admin

    def config_writer(self) -> PrivilegedWriter | None:
        """The leader's transactional writer of the config topic; None if writes are not transactional (KIP-618)."""
        if not self.config.transactional_leader:
            return None
        transactional_id = self.config.originals.get("transactional.id") or f"connect-cluster-{self.config.group_id}"
        return KafkaPrivilegedWriter(self.config["config.storage.topic"], self.settings,
                                     transactional_id=transactional_id, client_id=f"{self.client_id}-configs-leader")

    def offsets_writer(self, own: OwnOffsets | None, transactional_id: str) -> PrivilegedWriter:
        """A writer of altered offsets that fences the task of that transactional id."""
        topic, settings = (self.config["offset.storage.topic"], self.settings) if own is None else (
            own.topic, own.producer)
        return KafkaPrivilegedWriter(topic, settings, transactional_id=transactional_id,
                                     client_id=f"{self.client_id}-offsets-{transactional_id}")

    def close(self) -> None:
        """Closes the admin client."""
        self.admin.close()


def admin_client(config: WorkerConfig, settings: Mapping[str, Any], timeout_ms: int) -> KafkaAdmin:
    """An admin client that is connected to the worker's brokers. `settings`: those of `client_settings`. Raises
    ConnectError.
    """
    client_id = config["client.id"] or f"connect-{config.group_id}"
    try:
        return _admin(settings, f"{client_id}-admin", timeout_ms)
    except ConnectError as error:
        raise _unreachable(config, error) from error


def _unreachable(config: WorkerConfig, error: ConnectError) -> ConnectError:
    return ConnectError(f"Failed to connect to and describe Kafka cluster at {config.bootstrap_servers}. Check the "
                        f"worker's bootstrap.servers and security settings: {error}")


def _admin(settings: Mapping[str, Any], client_id: str, timeout_ms: int) -> KafkaAdmin:
    return KafkaAdmin.connect({
        **DEFAULTS, "bootstrap_timeout_ms": timeout_ms, **settings, "client_id": client_id,
    })
