"""`heeler offsets`: show, set and reset the offsets of connectors."""

from __future__ import annotations

import datetime as dt
import json
import re
from collections.abc import Iterable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, Final, Literal

import click

from heeler.cli.client.brokers import asking_kafka, broker_options, broker_properties
from heeler.cli.client.session import (
    FILES,
    YES,
    ClusterSession,
    cluster_command,
    cluster_group,
    confirm,
    connector_argument,
)
from heeler.cli.console.terminal import shown_when_slow
from heeler.errors import SetupError
from spark_tasks.errors import ConnectError, counted

Offsets = list[dict[str, Any]]
"""Objects with a partition and an offset, as in the API; the offset is null if there is none."""
_COLUMNS: Final = ("PARTITION", "NOW", "THEN")
_ENDS: Final[Mapping[str, Literal["earliest", "latest"]]] = {
    "beginning": "earliest", "earliest": "earliest", "end": "latest", "latest": "latest"}
_NUMBER: Final = re.compile(r"(\d+)")
_TIMEOUT_MS: Final = 15_000
_NO_OFFSETS: Final = "does not contain offsets as heeler offsets show -o json prints them"
_DRY: Final = click.option("--dry-run", is_flag=True, help="Only show the difference.")


@cluster_group
def offsets() -> None:
    """Show and change the offsets of connectors."""


@offsets.command()
@connector_argument()
@cluster_command
def show(session: ClusterSession, connector: str) -> None:
    """Show a connector's offsets: a source's in the system that it reads, a sink's in its topics."""
    items = _ask(session, connector)
    session.show({"offsets": items}, ("PARTITION", "OFFSET"),
                 [(_shown(item["partition"]), _shown(item["offset"])) for item in sorted(items, key=_order)],
                 "The connector has no offsets.")


@offsets.command("set")
@connector_argument()
@click.argument("positions", nargs=-1, metavar="[TOPIC:PARTITION=OFFSET]...")
@click.option("--from", "file", type=FILES, metavar="FILE",
              help="A JSON file in the format that heeler offsets show -o json prints.")
@_DRY
@YES
@cluster_command
def set_(
    session: ClusterSession, connector: str, positions: tuple[str, ...], file: Path | None, dry_run: bool, yes: bool
) -> None:
    """Set offsets of a stopped connector: a sink's as TOPIC:PARTITION=OFFSET, any connector's from a file.

    Partitions that are not named keep their offsets; a null offset resets its partition.
    """
    then = [*(_read(file) if file else []), *map(_parsed_position, positions)]
    if not then:
        raise click.UsageError("Specify the offsets to set: TOPIC:PARTITION=OFFSET, or --from FILE.")
    if positions and any("kafka_topic" not in item["partition"] for item in _ask(session, connector)):
        raise SetupError(f"{connector} is a source: its offsets are not of topics and partitions. Save them with "
                         f"heeler offsets show {connector} -o json, change the file, and use --from FILE")
    _alter(session, connector, then, dry_run=dry_run, yes=yes)


@offsets.command()
@connector_argument()
@click.option("--to", metavar="beginning|end|TIME", help="For a sink: move to the earliest records, to the end of its "
              "topics, or to the first records from a time on: 2026-11-22T18:00:00Z (UTC unless it names a zone). Its "
              "dead letter queue is left as it is.")
@broker_options
@_DRY
@YES
@cluster_command
def reset(
    session: ClusterSession, connector: str, to: str | None, bootstrap_servers: str | None, worker_config: Path | None,
    dry_run: bool, yes: bool,
) -> None:
    """Reset a stopped connector: forget its offsets or, with --to, move those of a sink.

    --to reads the topics: specify their Kafka with --bootstrap-servers or --worker-config.
    """
    if to is not None:
        clients = broker_properties(bootstrap_servers, worker_config)
        _alter(session, connector, _positions(session, connector, clients, where(to)), dry_run=dry_run, yes=yes)
        return
    _carry_out(session, connector, "DELETE", [{**item, "offset": None} for item in _ask(session, connector)],
               dry_run=dry_run, yes=yes)


def changes(now: Iterable[Mapping[str, Any]], then: Iterable[Mapping[str, Any]]) -> list[tuple[Any, Any, Any]]:
    """(partition, current offset, new offset) where they differ; None: no offset. If a partition is listed twice, the
    last offset counts.
    """
    before = {_key(item["partition"]): item["offset"] for item in now}
    after = {_key(item["partition"]): item for item in then}
    return [(item["partition"], before.get(key), item["offset"]) for key, item in
            sorted(after.items(), key=lambda pair: _order(pair[1])) if _key(before.get(key)) != _key(item["offset"])]


def where(to: str) -> Literal["earliest", "latest"] | int:
    """Parses --to: an end of the topics, in our words or Kafka's, or a time in ISO 8601, returned as ms since 1970.
    Raises UsageError.
    """
    if to in _ENDS:
        return _ENDS[to]
    try:
        moment = dt.datetime.fromisoformat(to.strip())
    except ValueError as error:
        raise click.UsageError(f"--to {to} is not beginning, end or a time such as 2026-11-22T18:00:00Z. To go "
                               "to an offset: heeler offsets set CONNECTOR TOPIC:PARTITION=OFFSET") from error
    moment = moment if moment.tzinfo else moment.replace(tzinfo=dt.UTC)
    return int(moment.timestamp() * 1000)


def _alter(session: ClusterSession, connector: str, then: Offsets, *, dry_run: bool, yes: bool) -> None:
    _carry_out(session, connector, "PATCH", list({_key(item["partition"]): item for item in then}.values()),
               dry_run=dry_run, yes=yes)


def _carry_out(
    session: ClusterSession, connector: str, method: Literal["PATCH", "DELETE"], then: Offsets, *, dry_run: bool,
    yes: bool,
) -> None:
    """Shows the difference, asks, and changes the offsets. With -o json or yaml, prints one document: the changes and,
    if they were made, the worker's message.
    """
    from heeler.cli.client.responses import as_object, as_text
    from heeler.cli.client.rest_client import path_of
    from heeler.cli.console.output import Format
    from heeler.cli.console.safe_text import safe

    changed = changes(_ask(session, connector), then)
    done: dict[str, Any] = {
        "changes": [{"partition": partition, "now": before, "then": after} for partition, before, after in changed]}
    if session.format is Format.TABLE:
        rows = [(_shown(partition), _shown(before), _shown(after)) for partition, before, after in changed]
        session.show(done, _COLUMNS, rows, "Nothing would change.")
    # A connector may also keep offsets itself, which the worker does not know.
    if not dry_run and (changed or method == "DELETE"):
        many = counted(len(changed), "offset")
        forget = f"Reset {many}?" if changed else f"{safe(connector)} may store offsets outside Kafka. Reset it anyway?"
        confirm(forget if method == "DELETE" else f"Change {many}?", yes=yes)
        response = session.call(method, path_of("connectors", connector, "offsets"),
                                {"offsets": then} if method == "PATCH" else None)
        done["message"] = as_text(as_object(response, "a change of offsets").get("message"))
        session.tell(safe(done["message"]))
    if session.format is not Format.TABLE:
        session.show(done, (), ())


def _positions(
    session: ClusterSession, connector: str, properties: Mapping[str, str], which: Literal["earliest", "latest"] | int
) -> Offsets:
    """The offsets of all partitions of a sink's topics, from Kafka. Its dead letter queue is left out: the offset there
    records which letters have been replayed.
    """
    from heeler.cli.client.responses import as_config
    from heeler.cli.client.rest_client import path_of
    from spark_tasks.config.connector_keys import queue_of, topics_of
    from spark_tasks.config.record_limit import MAX_RECORD_KEY
    from spark_tasks.kafka.client_config import client_settings
    from spark_tasks.kafka.cluster import KafkaCluster

    config = as_config(session.call("GET", path_of("connectors", connector, "config")), "a connector's config")
    queue = queue_of(config)
    used = {item["partition"].get("kafka_topic") for item in _ask(session, connector)}
    topics = sorted(name for name in {*topics_of(config), *used} if isinstance(name, str) and name != queue)
    if not topics or not ("topics" in config or "topics.regex" in config):
        raise SetupError(f"{connector} is not a sink, or has not read any topic yet: --to applies only to sinks")
    cluster = KafkaCluster(client_settings({k: v for k, v in properties.items() if k != MAX_RECORD_KEY}))
    with closing(cluster), asking_kafka(), shown_when_slow("Waiting for Kafka …"):
        partitions = [(topic, p) for topic in topics for p in cluster.partitions(topic, timeout_ms=_TIMEOUT_MS)]
        offset_by_partition = cluster.offsets(partitions, which, timeout_ms=_TIMEOUT_MS)
        # A partition without a record from that time on: its end.
        late = [partition for partition, offset in offset_by_partition.items() if offset < 0]
        if late:
            offset_by_partition |= cluster.offsets(late, "latest", timeout_ms=_TIMEOUT_MS)
    return [{"partition": {"kafka_topic": topic, "kafka_partition": p}, "offset": {"kafka_offset": offset}}
            for (topic, p), offset in sorted(offset_by_partition.items())]


def _ask(session: ClusterSession, connector: str) -> Offsets:
    from heeler.cli.client.responses import as_object
    from heeler.cli.client.rest_client import path_of

    response = as_object(session.call("GET", path_of("connectors", connector, "offsets")), "a connector's offsets")
    return _checked(response.get("offsets"), "a connector's offsets")


def _checked(value: Any, what: str) -> Offsets:
    from heeler.cli.client.responses import as_list, as_object

    items = [as_object(item, what) for item in as_list(value, what)]
    return [{"partition": as_object(item.get("partition"), what), "offset": item.get("offset")} for item in items]


def _read(file: Path) -> Offsets:
    try:
        content = json.loads(file.read_text(encoding="utf-8-sig"))
        return _checked(content["offsets"] if isinstance(content, dict) else content, str(file))
    except ConnectError as error:
        raise SetupError(f"{file} {_NO_OFFSETS}: it must have a list of objects, each with a partition and an offset"
                         ) from error
    except (OSError, ValueError, KeyError, RecursionError) as error:
        why = f"it has no {error}" if isinstance(error, KeyError) else str(error)
        raise SetupError(f"{file} {_NO_OFFSETS}: {why}") from error


def _parsed_position(text: str) -> dict[str, Any]:
    """Parses TOPIC:PARTITION=OFFSET. Raises UsageError."""
    place, equals, offset = text.rpartition("=")
    topic, colon, partition = place.rpartition(":")
    if not (equals and colon and topic) or not (partition.isdecimal() and offset.isdecimal()):
        raise click.UsageError(f"{text} is not TOPIC:PARTITION=OFFSET")
    return {"partition": {"kafka_topic": topic, "kafka_partition": int(partition)},
            "offset": {"kafka_offset": int(offset)}}


def _shown(value: Any) -> str:
    """A short form: a sink's partition as topic:partition and its offset as a number; others as JSON."""
    if value is None:
        return "-"
    if isinstance(value, dict) and value.keys() == {"kafka_topic", "kafka_partition"}:
        return f"{value['kafka_topic']}:{value['kafka_partition']}"
    if isinstance(value, dict) and value.keys() == {"kafka_offset"}:
        return str(value["kafka_offset"])
    return json.dumps(value, ensure_ascii=False)


def _key(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def _order(item: Mapping[str, Any]) -> tuple[tuple[str, int, str], ...]:
    """A sort key that compares numbers in names as numbers: t:2 comes before t:10."""
    return tuple(("", int(part), "") if part.isdecimal() else (part, 0, "") for part in
                 _NUMBER.split(_shown(item["partition"])))
