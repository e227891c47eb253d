"""`heeler topics`: prints the records of topics."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from heeler.cli.client.brokers import asking_kafka, broker_options, broker_properties
from heeler.cli.console.terminal import errors_without_trace, interrupting_signals, shown_when_slow

if TYPE_CHECKING:
    from spark_tasks.kafka.cluster import KafkaCluster, TopicPartition

_TIMEOUT_MS: Final = 15_000
_POLL_S: Final = 0.2
_FETCH_BYTES: Final = 1024 * 1024
_ROWS: Final = 1000


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
        from heeler.cli.support.records_text import record_line

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


class _Reader:
    def __init__(self, topic: str, properties: dict[str, str]) -> None:
        from spark_tasks.config.record_limit import DEFAULT_MAX_RECORD_BYTES, MAX_RECORD_KEY
        from spark_tasks.kafka.client_config import client_settings
        from spark_tasks.kafka.cluster import KafkaCluster
        from spark_tasks.kafka.task_clients import isolation

        logging.getLogger("kafka").addHandler(logging.NullHandler())  # the command prints one message with the reason
        self._topic = topic
        self._max_record_bytes = int(properties.pop(MAX_RECORD_KEY, DEFAULT_MAX_RECORD_BYTES))
        self._isolation = isolation(properties)
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
