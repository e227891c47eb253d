"""`heeler topics`: prints the records of topics."""
# ruff: noqa: PLC0415  (imports inside the commands: the command line has to start fast)

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from heeler.cli.terminal import errors_without_trace, interrupting_signals, shown_when_slow
from heeler.errors import SetupError

if TYPE_CHECKING:
    from spark_tasks.kafka.cluster import Isolation, KafkaCluster, TopicPartition

DEFAULT_SERVERS: Final = "localhost:9092"
_TIMEOUT_MS: Final = 15_000
_POLL_S: Final = 0.2
_FETCH_BYTES: Final = 1024 * 1024
_ROWS: Final = 1000


def broker_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds the options that specify a Kafka cluster, for `broker_properties`."""
    servers = click.option("--bootstrap-servers", metavar="HOST:PORT,…",
                           help=f"Kafka's brokers.  [default: the worker file's, or {DEFAULT_SERVERS}]")
    config = click.option("--worker-config", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE",
                          help="Take brokers and security settings from a worker's properties file, as its sinks do.")
    return servers(config(command))


@click.group()
def topics() -> None:
    """Read topics."""


@topics.command()
@click.argument("topic")
@broker_options
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help="Stop after this many records.")
@click.option("--from-beginning/--from-end", default=True, show_default=True, help="Where to start in each partition.")
@click.option("--follow", is_flag=True, help="Keep reading records as they are written, until Ctrl-C.")
def read(
    topic: str, bootstrap_servers: str | None, worker_config: Path | None, limit: int | None, from_beginning: bool,
    follow: bool,
) -> None:
    r"""Print the records of TOPIC, one line of JSON each, partition after partition.

    JSON values are shown as they are, other text as a string; bytes that are not text are written as \xff.
    """
    with errors_without_trace(), interrupting_signals(), asking_kafka():
        from heeler.cli.records_text import record_line

        reader = _Reader(topic, broker_properties(bootstrap_servers, worker_config))
        try:
            for count, (partition, record) in enumerate(reader.records(from_beginning, follow), 1):
                click.echo(record_line(partition, record).encode())  # in UTF-8, whatever the terminal's encoding
                if count == limit:
                    return
        except KeyboardInterrupt:
            if not follow:
                raise
        finally:
            reader.close()


def broker_properties(bootstrap_servers: str | None, worker_config: Path | None) -> dict[str, str]:
    """A consumer's properties, under Kafka's names. The option's brokers replace those of the worker's file."""
    if worker_config is None:
        return {"bootstrap.servers": bootstrap_servers or DEFAULT_SERVERS}
    from heeler.worker.config import load_worker_config
    from spark_tasks.config.record_limit import MAX_RECORD_KEY
    from spark_tasks.kafka.client_properties import client_properties

    overrides = () if bootstrap_servers is None else (f"bootstrap.servers={bootstrap_servers}",)
    worker = load_worker_config(worker_config, overrides, os.environ, needed=("bootstrap.servers",))
    return {**client_properties(worker.originals, {}, "consumer"), MAX_RECORD_KEY: str(worker[MAX_RECORD_KEY])}


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


class _Reader:
    def __init__(self, topic: str, properties: dict[str, str]) -> None:
        from spark_tasks.config.record_limit import DEFAULT_MAX_RECORD_BYTES, MAX_RECORD_KEY
        from spark_tasks.kafka.client_config import client_settings
        from spark_tasks.kafka.cluster import KafkaCluster

        logging.getLogger("kafka").addHandler(logging.NullHandler())  # the command prints one message with the reason
        self._topic = topic
        self._max_record_bytes = int(properties.pop(MAX_RECORD_KEY, DEFAULT_MAX_RECORD_BYTES))
        level = properties.get("isolation.level", "").strip().lower()
        self._isolation: Isolation = "read_committed" if level == "read_committed" else "read_uncommitted"
        self._cluster: KafkaCluster = KafkaCluster(client_settings(properties))

    def records(self, from_beginning: bool, follow: bool) -> Iterator[tuple[int, dict[str, Any]]]:
        """Yields partition and record, up to the current ends of the partitions or, with `follow`, endlessly."""
        with shown_when_slow("Waiting for Kafka …"):
            ends = self._offsets("latest")
            positions = self._offsets("earliest") if from_beginning else dict(ends)
        while True:
            for where, end in sorted(ends.items()):
                yield from self._range(where, positions.get(where, 0), end)
            if not follow:
                return
            positions |= ends
            while (ends := self._offsets("latest")) == positions:
                time.sleep(_POLL_S)

    def _range(self, where: TopicPartition, start: int, end: int) -> Iterator[tuple[int, dict[str, Any]]]:
        from spark_tasks.kafka.fetch import read_range

        batches = read_range(
            self._cluster, *where, start, end, isolation=self._isolation, fetch_bytes=_FETCH_BYTES,
            max_record_bytes=self._max_record_bytes,
        )  # fmt: skip
        for batch in batches:
            for at in range(0, len(batch), _ROWS):
                for record in batch.slice(at, _ROWS).to_pylist():
                    yield where[1], record

    def _offsets(self, which: Any) -> dict[TopicPartition, int]:
        partitions = [(self._topic, p) for p in self._cluster.partitions(self._topic, timeout_ms=_TIMEOUT_MS)]
        return self._cluster.offsets(partitions, which, self._isolation, timeout_ms=_TIMEOUT_MS)

    def close(self) -> None:
        self._cluster.close()
