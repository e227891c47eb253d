"""Checks of a worker's properties file: settings, plugins, certificates, brokers, topics. Changes nothing."""

from __future__ import annotations

import datetime as dt
import re
import socket
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from heeler.doctor.findings import Finding, Verdict
from heeler.worker.config import WorkerConfig
from heeler.worker.startup import checked_plugins, java_runtime
from spark_tasks.errors import ConfigError, counted
from spark_tasks.plugins import Kind

if TYPE_CHECKING:
    from spark_tasks.kafka.admin import KafkaAdmin

TIMEOUT_MS: Final = 10_000
_SOON: Final = dt.timedelta(days=30)
_CERTIFICATE = re.compile(r"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL)


def settings(config: WorkerConfig) -> Iterator[Finding]:
    """Settings that heeler does not know; without any, the group and the brokers."""
    unknown = sorted(config.unknown_keys())
    if unknown:
        yield Finding("settings", Verdict.WARNING,
                      f"Unknown worker settings, possibly misspelled: {', '.join(unknown)}")
    else:
        yield Finding("settings", Verdict.OK, f"group {config.group_id}, brokers {config.bootstrap_servers}")


def plugins(config: WorkerConfig) -> Iterator[Finding]:
    """Each folder, jar and plugin that cannot be used, and the number of plugins that can."""
    java = java_runtime(config)
    try:
        for complaint in java.complaints:
            yield Finding("plugins", Verdict.ERROR, complaint)
        found = checked_plugins(config, java)
        for complaint in found.complaints:
            if complaint not in java.complaints:
                yield Finding("plugins", Verdict.ERROR, complaint)
        usable = {kind: found.of_kind(kind) for kind in Kind}
        for problem in found.problems():
            yield Finding("plugins", Verdict.ERROR, problem)
    finally:
        java.close()
    others = sum(len(found) for kind, found in usable.items() if kind is not Kind.CONNECTOR)
    yield Finding("plugins", Verdict.OK, f"{len(usable[Kind.CONNECTOR])} connectors, {others} others")


def spark_cluster(config: WorkerConfig) -> Iterator[Finding]:
    """Whether the master of a Spark cluster, or its Kubernetes API server, accepts connections."""
    master = config.spark_master
    if not master.addresses:
        return
    errors = []
    for place in master.addresses:  # of a group of masters, one is enough
        try:
            url = urlsplit(f"//{place}")
            socket.create_connection((url.hostname or "", url.port or 443), TIMEOUT_MS / 1000).close()
        except (OSError, ValueError) as error:
            errors.append(f"{place}: {error}")
        else:
            break
    else:
        why = "; ".join(errors)
        yield Finding("Spark", Verdict.ERROR, f"spark.master {master} cannot be reached ({why}). Start it, or correct "
                                              "the address")
        return
    yield Finding("Spark", Verdict.OK, f"{master} accepts connections")


def certificates(config: WorkerConfig, now: dt.datetime) -> Iterator[Finding]:
    """The certificates of listeners and clients: whether they can be read, and how long they are valid."""
    from rest.server.settings import RestSettings  # noqa: PLC0415 - loads Flask
    from rest.server.tls import pem_certificates, server_context  # noqa: PLC0415
    from spark_tasks.kafka.client_config import client_settings  # noqa: PLC0415

    rest = RestSettings.of(config.values, config.originals)
    listeners = [*rest.listeners, *(rest.admin_listeners or ())]
    settings: list[tuple[str, Mapping[str, str]]] = []
    if any(listener.protocol == "https" for listener in listeners):
        server_context(rest.tls)
        settings.append(("REST", rest.tls))
    client_settings(config.client())
    if any(key.startswith("ssl.") for key in config.originals):
        settings.append(("Kafka clients", {k: v for k, v in config.originals.items() if k.startswith("ssl.")}))
    certificates = [(where, pem) for where, tls in settings for text in pem_certificates(tls)
             for pem in _CERTIFICATE.findall(text)]
    yield from (validity(where, pem, now) for where, pem in dict.fromkeys(certificates))
    if not certificates:
        yield Finding("certificates", Verdict.OK, "none is configured")


def validity(where: str, pem: str, now: dt.datetime) -> Finding:
    """The findings about one certificate in PEM."""
    from cryptography.x509 import load_pem_x509_certificate  # noqa: PLC0415 - takes long

    about = "certificates"
    try:
        certificate = load_pem_x509_certificate(pem.encode())
        start, end = certificate.not_valid_before_utc, certificate.not_valid_after_utc
        name = certificate.subject.rfc4514_string() or "(no name)"
    except ValueError as error:
        raise ConfigError(f"{where}: a certificate cannot be read: {error}") from error
    if now < start:
        return Finding(about, Verdict.ERROR, f"{where}: {name} is not valid before {start:%Y-%m-%d %H:%M} UTC. Is this "
                                             f"machine's clock right? It says {now:%Y-%m-%d %H:%M} UTC")
    if now > end:
        return Finding(about, Verdict.ERROR, f"{where}: {name} was valid until {end:%Y-%m-%d %H:%M} UTC. Replace it")
    if now > end - _SOON:
        return Finding(about, Verdict.WARNING, f"{where}: {name} is valid until {end:%Y-%m-%d %H:%M} UTC. "
                                               "Replace it soon")
    return Finding(about, Verdict.OK, f"{where}: {name}, valid until {end:%Y-%m-%d}")


def kafka(config: WorkerConfig) -> Iterator[Finding]:
    """Brokers, then internal topics."""
    from contextlib import closing  # noqa: PLC0415 - with what takes long

    from heeler.worker.kafka_parts import admin_client  # noqa: PLC0415 - loads Kafka's client
    from spark_tasks.kafka.client_config import client_settings  # noqa: PLC0415

    with closing(admin_client(config, client_settings(config.client()), TIMEOUT_MS)) as admin:
        cluster = admin.cluster()
        yield Finding("brokers", Verdict.OK, f"{cluster.brokers} in cluster {cluster.id}")
        yield from _topics(config, admin, cluster.brokers)


def _topics(config: WorkerConfig, admin: KafkaAdmin, brokers: int) -> Iterator[Finding]:
    from storage.log.internal_topics import check_topic, internal_topics  # noqa: PLC0415 - loads Kafka's client

    about = "internal topics"
    for topic in internal_topics(config.values, config.originals):
        try:
            partitions = check_topic(admin, topic)
        except ConfigError as error:
            yield Finding(about, Verdict.ERROR, str(error))
            continue
        if partitions is None:
            factor = topic.replication_factor
            if factor > brokers:
                yield Finding(about, Verdict.ERROR, f"{topic.name} does not exist, and the worker cannot create it: "
                              f"{topic.prefix}replication.factor is {factor}, and Kafka has "
                              f"{counted(brokers, 'broker')}. Lower it, or start more brokers")
            else:
                yield Finding(about, Verdict.OK, f"{topic.name} does not exist yet: the worker will create it")
            continue
        leaderless = [p["partition_index"] for p in partitions if p.get("leader_id", 0) < 0]
        if leaderless:
            yield Finding(about, Verdict.ERROR, f"{topic.name}: partitions {leaderless} have no leader. Start the "
                                                "brokers that have their replicas")
        behind = [p["partition_index"] for p in partitions if len(p["isr_nodes"]) < len(p["replica_nodes"])]
        if behind:
            yield Finding(about, Verdict.WARNING,
                          f"{topic.name}: partitions {behind} have replicas that are not in sync. Check "
                          "that all brokers run and reach each other")
        copies = min((len(p["replica_nodes"]) for p in partitions), default=0)
        if copies == 1 and brokers > 1:
            yield Finding(about, Verdict.WARNING, f"{topic.name} has one replica: if its broker is lost, so are "
                          f"{topic.purpose}. Use Kafka's kafka-reassign-partitions to add replicas")
        elif not leaderless and not behind:
            yield Finding(about, Verdict.OK, f"{topic.name}: {counted(len(partitions), 'partition')}, "
                                             f"{counted(copies, 'replica')}")
