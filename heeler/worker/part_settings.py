"""The settings of the worker's parts, from its configuration."""

from __future__ import annotations

import hashlib
import logging
import secrets
from collections.abc import Callable, Mapping
from typing import Any

from actors.assignment.protocol import Protocol
from actors.group.coordinator import GroupSettings
from actors.herder.state import HerderSettings
from actors.messages.requests import SIGNATURE_DIGESTS
from heeler.worker.config import EXACTLY_ONCE, WorkerConfig, exactly_once
from heeler.worker.keys.worker import WORKER_KEYS
from spark_tasks.config import restart_policy
from spark_tasks.config.definition import ConfigDef
from spark_tasks.config.override_policy import policy_of
from spark_tasks.config.record_limit import MAX_RECORD_KEY
from spark_tasks.config.restart_policy import RestartPolicy
from spark_tasks.errors import ConfigError
from spark_tasks.kafka.client_properties import of_worker
from spark_tasks.spark.executor import result_limit
from spark_tasks.spark.residents.settings import MODE, ExecutorSettings, default_running
from spark_tasks.spark.security import is_local
from spark_tasks.task import WorkerSettings
from spark_tasks.validation import ValidationSettings
from storage.config.state import SessionKey
from storage.ids import Config, WorkerId

_logger = logging.getLogger(__name__)
_EXACTLY_ONCE = ConfigDef(WORKER_KEYS.keys[EXACTLY_ONCE])
_TOPICS = tuple(f"{kind}.storage.topic" for kind in ("config", "offset", "status"))
_CONVERTERS = ("key.converter", "value.converter", "header.converter", "plugin.path")
_LONG_KEYS = ("HmacMD5", "HmacSHA1")  # 64 bytes, as in Java: a leader with another size would replace the key


def restart_policy_of(worker: Mapping[str, Any]) -> Callable[[Config], RestartPolicy]:
    """Returns a function that gives the restart policy of a connector; with invalid settings, it is not restarted.
    `worker`: the values of its configuration.
    """

    def of(connector: Config) -> RestartPolicy:
        try:
            return RestartPolicy.of(worker, connector)
        except ConfigError as error:
            _logger.warning("Not restarted automatically, because its settings for that are invalid: %s", error,
                            extra={"about": connector.get("name")})
            return RestartPolicy()

    return of


def progress_limit(worker: Mapping[str, Any]) -> Callable[[Config], float]:
    """Returns a function that gives the seconds that a task of a connector may take for a batch, and the connector for
    a call; if the connector's own setting is invalid, the worker's applies. `worker`: the values of its configuration.
    """

    def of(connector: Config) -> float:
        if restart_policy.PROGRESS_TIMEOUT not in connector:  # thousands of connectors may start at once
            return float(worker[restart_policy.PROGRESS_TIMEOUT]) / 1000
        try:
            values = restart_policy.settings(worker, connector)
        except ConfigError as error:
            _logger.warning("The worker's task.progress.timeout.ms applies: %s", error,
                            extra={"about": connector.get("name")})
            values = restart_policy.settings(worker, {})
        return float(values[restart_policy.PROGRESS_TIMEOUT]) / 1000

    return of


def herder_settings(config: WorkerConfig, worker_id: str, connector_type: Callable[[Config], str]) -> HerderSettings:
    """The settings of the herder's core."""
    return HerderSettings(
        worker_id=WorkerId(worker_id),
        group_id=config.group_id,
        session_timeout_ms=config["session.timeout.ms"],
        sync_timeout_ms=config["worker.sync.timeout.ms"],
        unsync_backoff_ms=config["worker.unsync.backoff.ms"],
        scheduled_delay_max_ms=config["scheduled.rebalance.max.delay.ms"],
        graceful_stop_ms=config["task.shutdown.graceful.timeout.ms"],
        key_ttl_ms=config["inter.worker.key.ttl.ms"],
        key_algorithm=config["inter.worker.key.generation.algorithm"],
        key_bytes=_key_bytes(config),
        verification_algorithms=tuple(config["inter.worker.verification.algorithms"]),
        exactly_once=config.exactly_once,
        connector_type=connector_type,
        restart_policy=restart_policy_of(config.values),
    )


def task_settings(config: WorkerConfig) -> WorkerSettings:
    """The settings of the worker for its tasks."""
    return WorkerSettings(
        group_id=config.group_id,
        clients=of_worker(config.originals),
        converters=_of_converters(config.originals),
        session_timeout_ms=config["session.timeout.ms"],
        offset_flush_interval_ms=config["offset.flush.interval.ms"],
        graceful_stop_ms=config["task.shutdown.graceful.timeout.ms"],
        max_record_bytes=config[MAX_RECORD_KEY],
        topic_creation=config["topic.creation.enable"],
    )


def validation_settings(worker: Mapping[str, str]) -> ValidationSettings:
    """The settings of the worker for the validation of connectors. `worker`: its properties; a trial's are incomplete.
    Raises ConfigError.
    """
    return ValidationSettings(
        group_id=worker.get("group.id"),
        internal_topics=frozenset(topic.strip() for key in _TOPICS if (topic := worker.get(key))),
        exactly_once=exactly_once(_EXACTLY_ONCE.parse(worker)),
        on_cluster=not is_local(worker),
        policy=policy_of(worker),
        clients=of_worker(worker),
        converters=_of_converters(worker),
    )


def _of_converters(worker: Mapping[str, str]) -> dict[str, str]:
    return {key: value for key, value in worker.items() if key.startswith(_CONVERTERS)}


def executor_settings(config: WorkerConfig) -> ExecutorSettings:
    """The settings of the processes that run splits."""
    processes, delay_ms = config["heeler.executors.max"], config["heeler.spark.start.delay.ms"]
    return ExecutorSettings(
        mode=config[MODE],
        max_processes=processes,
        running=min(processes, config["heeler.executors.running.max"] or default_running()),
        idle_s=config["heeler.executors.idle.ms"] / 1000,
        slow_s=config["heeler.executors.slow.ms"] / 1000,
        port=config["heeler.executors.port"],
        spark_delay_s=None if delay_ms is None else delay_ms / 1000,
        max_result_bytes=result_limit(config[MAX_RECORD_KEY]),
    )


def group_settings(config: WorkerConfig, url: str, client: Mapping[str, Any]) -> GroupSettings:
    """The settings of the group member; `client`: kafka-python's settings."""
    return GroupSettings(
        group_id=config.group_id,
        url=url,
        client=client,
        protocol=Protocol.configured(str(config["connect.protocol"]).lower()),
        session_timeout_ms=config["session.timeout.ms"],
        heartbeat_interval_ms=config["heartbeat.interval.ms"],
        rebalance_timeout_ms=config["rebalance.timeout.ms"],
        max_delay_ms=config["scheduled.rebalance.max.delay.ms"],
        retry_backoff_ms=config["retry.backoff.ms"],
    )


def new_session_key(config: WorkerConfig, now_ms: int) -> SessionKey:
    """A random key for requests between workers (KIP-507)."""
    return SessionKey(secrets.token_bytes(_key_bytes(config)), config["inter.worker.key.generation.algorithm"], now_ms)


def _key_bytes(config: WorkerConfig) -> int:
    algorithm, bits = config["inter.worker.key.generation.algorithm"], config["inter.worker.key.size"]
    if bits is not None:
        return int(bits + 7) // 8
    if algorithm in _LONG_KEYS:
        return 64
    return hashlib.new(SIGNATURE_DIGESTS[algorithm]).digest_size
