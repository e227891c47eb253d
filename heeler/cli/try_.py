"""`heeler try`: runs a few records through a connector's configuration, without leaving anything behind."""

from __future__ import annotations

import itertools
import json
import logging
import os
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from heeler.cli.client.brokers import asking_kafka, broker_options, broker_properties
from heeler.cli.client.session import FILES, NO
from heeler.cli.console.output import Format, print_data
from heeler.cli.console.safe_text import safe, safe_json, safe_message
from heeler.cli.console.terminal import (
    errors_without_trace,
    interrupting_signals,
    logging_disabled,
    plugins_print_apart,
    shown_when_slow,
)
from heeler.errors import SetupError

if TYPE_CHECKING:
    import pyarrow as pa

    from spark_tasks.plugins import Plugins
    from spark_tasks.trial import StageRecords

    Raw = tuple[str, int, pa.RecordBatch]

_TIMEOUT_MS: Final = 15_000
_FETCH_BYTES: Final = 1024 * 1024
_WHERE_FOUND: Final = (
    "Plugins are looked for in installed packages, and in the folders of plugin.path in the connector's configuration "
    "and in the worker's file."
)
WORKER: Final = {  # the converters of a trial whose worker file does not name any, as in README.md
    "key.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
}


@click.command("try")
@click.argument("file", type=FILES)
@click.option("--records", type=FILES, metavar="FILE", help="Records for a sink: lines of JSON with value and, "
              "optionally, key, topic, headers. Without it: the last records of its topics.")
@click.option("--limit", type=click.IntRange(1, 1000), default=5, show_default=True,
              help="The maximum number of records.")
@click.option("-o", "--output", type=click.Choice([f.value for f in Format]), default="table", show_default=True)
@broker_options
def try_(
    file: Path, records: Path | None, limit: int, output: str, bootstrap_servers: str | None,
    worker_config: Path | None,
) -> None:
    """Run the connector of FILE here on a few records, and show them after each stage. Nothing is left behind.

    A source needs no Kafka: its records are shown as read, after each transform, and as they would be sent. A sink's
    records come from a file or from its topics, and are shown as they would be written. Exits with 1 if a stage fails.

    --worker-config also determines the plugins, converters and config providers.
    """
    with errors_without_trace(), interrupting_signals(), logging_disabled(logging.WARNING):
        with shown_when_slow("Trying …"), plugins_print_apart():
            seen = _tried(file, records, limit, bootstrap_servers, worker_config)
        if output == Format.TABLE:
            for stage in seen:
                _print(stage)
        else:
            print_data({"stages": [stage.as_data() for stage in seen]}, Format(output))
    raise SystemExit(NO if any(stage.error for stage in seen) else 0)


def _tried(
    file: Path, records: Path | None, limit: int, bootstrap_servers: str | None, worker_config: Path | None
) -> list[StageRecords]:
    from spark_tasks.trial import try_connector

    plugins, worker, config = connector_of(file, worker_config)

    def sample() -> Iterator[Raw]:
        if records is not None:
            return _from_file(records, config)
        return _from_kafka(config, broker_properties(bootstrap_servers, worker_config), limit)

    return try_connector(plugins, worker, config, records=sample, limit=limit)


def connector_of(file: Path, worker_config: Path | None) -> tuple[Plugins, Mapping[str, str], dict[str, str]]:
    """The plugins and the properties of a worker, and the configuration in a file with its placeholders replaced.

    Raises SetupError and ConfigError.
    """
    from heeler.cli.configs.config_files import read_connectors
    from heeler.worker.config import load_worker_config
    from heeler.worker.trial_plugins import plugins_for_trial
    from spark_tasks.config.auto_tasks import stored
    from spark_tasks.config.masking import passwords, process_secrets
    from spark_tasks.config.types import Type, parse_type
    from spark_tasks.plugins.config_providers import ConfigTransformer

    wanted = read_connectors([file])
    if len(wanted) > 1:
        raise SetupError(f"{file} has {len(wanted)} connectors; try one at a time")
    [one] = wanted
    worker: Mapping[str, str] = WORKER
    config = stored(one.config)
    if worker_config is not None:
        loaded = load_worker_config(worker_config, (), os.environ, needed=())
        worker = {**WORKER, **loaded.originals}
        config = dict(ConfigTransformer(loaded.providers).transform(config))
    process_secrets().add(one.name, passwords(config))
    paths = (parse_type("plugin.path", properties.get("plugin.path", ""), Type.LIST) for properties in (worker, config))
    worker = {**worker, "plugin.path": ",".join(dict.fromkeys(itertools.chain.from_iterable(paths)))}
    return plugins_for_trial(worker, config, _WHERE_FOUND), worker, config


def _from_file(file: Path, config: Mapping[str, str]) -> Iterator[Raw]:
    from spark_tasks.trial import raw_records, topic_of_records

    topic = topic_of_records(config)
    try:
        lines = file.read_text(encoding="utf-8-sig").split("\n")  # splitlines would also break at U+2028 in a string
        parsed = [json.loads(line) for line in lines if line.strip()]
    except (OSError, ValueError, RecursionError) as error:
        raise SetupError(f"{file} must have a JSON object in each line: {error}") from error
    yield from raw_records(parsed, topic)


def _from_kafka(config: Mapping[str, str], properties: Mapping[str, str], limit: int) -> Iterator[Raw]:
    """The newest records, read without a group."""
    from spark_tasks.config.connector_keys import topics_of
    from spark_tasks.config.record_limit import DEFAULT_MAX_RECORD_BYTES, MAX_RECORD_KEY
    from spark_tasks.kafka.client_config import client_settings
    from spark_tasks.kafka.cluster import KafkaCluster
    from spark_tasks.kafka.fetch import read_range

    topics = topics_of(config)
    if not topics:
        raise SetupError("To try a sink with records from Kafka, set its topics in topics; or use --records FILE")
    logging.getLogger("kafka").addHandler(logging.NullHandler())
    cluster = KafkaCluster(client_settings({k: v for k, v in properties.items() if k != MAX_RECORD_KEY}))
    with closing(cluster), asking_kafka():
        partitions = [(topic, p) for topic in topics for p in cluster.partitions(topic, timeout_ms=_TIMEOUT_MS)]
        starts = cluster.offsets(partitions, "earliest", timeout_ms=_TIMEOUT_MS)
        for partition, end in sorted(cluster.offsets(partitions, "latest", timeout_ms=_TIMEOUT_MS).items()):
            start = max(starts[partition], end - limit)
            if start < end:
                for batch in read_range(cluster, *partition, start, end, isolation="read_committed",
                                        fetch_bytes=_FETCH_BYTES, max_record_bytes=DEFAULT_MAX_RECORD_BYTES):
                    yield from ((*partition, batch.slice(at, 1)) for at in range(len(batch)))


def _print(seen: StageRecords) -> None:
    click.secho(f"{safe(seen.stage)}  {safe(seen.plugin)}", bold=True)
    for record in seen.records:
        click.echo(f"  {safe_json(json.dumps(record, ensure_ascii=False))}")
    if seen.accepted is not None:
        click.echo(f"  (its predicate accepted {sum(seen.accepted)} of {len(seen.accepted)}: "
                   f"{', '.join('yes' if yes else 'no' for yes in seen.accepted)})")
    if seen.error is not None:
        click.secho(f"  {safe_message(seen.error)}", fg="red")
    elif not seen.records:
        click.echo("  (no records)")


