"""The brokers that a command reads from, from options or a worker's file."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import click

from heeler.errors import SetupError

DEFAULT_SERVERS: Final = "localhost:9092"


def broker_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds the options that specify a Kafka cluster, for `broker_properties`."""
    servers = click.option("--bootstrap-servers", metavar="HOST:PORT,…",
                           help=f"Kafka's brokers.  [default: the worker file's, or {DEFAULT_SERVERS}]")
    config = click.option("--worker-config", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE",
                          help="Take brokers and security settings from a worker's properties file, as its sinks do.")
    return servers(config(command))


def broker_properties(bootstrap_servers: str | None, worker_config: Path | None) -> dict[str, str]:
    """A consumer's properties, under Kafka's names. The option's brokers replace those of the worker's file."""
    if worker_config is None:
        return {"bootstrap.servers": bootstrap_servers or DEFAULT_SERVERS}
    from heeler.worker.config import load_worker_config
    from spark_tasks.config.client_properties import client_properties
    from spark_tasks.config.record_limit import MAX_RECORD_KEY

    overrides = () if bootstrap_servers is None else (f"bootstrap.servers={bootstrap_servers}",)
    worker = load_worker_config(worker_config, overrides, os.environ, needed=("bootstrap.servers",))
    return {**client_properties(worker.clients, {}, "consumer"), MAX_RECORD_KEY: str(worker[MAX_RECORD_KEY])}


class KafkaUnreachableError(SetupError):
    """Kafka does not respond."""

    exit_code = 3


@contextmanager
def asking_kafka() -> Iterator[None]:
    """Raises KafkaUnreachableError, which names the options that specify Kafka, if Kafka does not respond."""
    from spark_tasks.kafka.errors import KafkaUnavailableError

    try:
        yield
    except KafkaUnavailableError as error:
        raise KafkaUnreachableError(
            "Kafka does not respond. Check that it is running, and specify its brokers with --bootstrap-servers, or a "
            f"worker's file with --worker-config ({error})") from error
