"""`heeler connectors replay`: replays the records of a dead letter queue to its connector."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, Final

import click

from heeler.cli.client.session import NO, YES, ClusterSession, cluster_command, confirm, connector_argument

_POLL_S: Final = 0.5
_COLUMNS: Final = ("WHAT", "LETTERS")
_TOTALS: Final = (
    ("scanned", "scanned"), ("would be replayed", "would_replay"), ("replayed", "replayed"),
    ("of these refused again", "refused_again"), ("excluded by the filter", "left"),
    ("already in the sink", "held_by_the_sink"),
    ("of other connectors, or without the headers that a replay needs", "not_replayable"),
)
_APART: Final = ("would_replay", "replayed", "left", "held_by_the_sink", "not_replayable")
"""Each scanned letter counts as one of these, or was replayed before."""
_SAMPLE: Final = ("queue_partition", "queue_offset", "topic", "partition", "offset", "stage", "exception", "message")


@click.command()
@connector_argument()
@click.option("--topic", "topics", multiple=True, metavar="TOPIC", help="Only records of this topic; may be repeated.")
@click.option("--stage", "stages", multiple=True, metavar="STAGE", help="Only records that failed in this stage, "
              "such as VALUE_CONVERTER; may be repeated.")
@click.option("--exception", metavar="REGEX", help="Only records whose exception's class name matches.")
@click.option("--message", metavar="REGEX", help="Only records whose exception's message matches.")
@click.option("--from", "first", metavar="TIME", help="Only records from this time on: 2026-11-22T18:00:00Z.")
@click.option("--to", "end", metavar="TIME", help="Only records before this time.")
@click.option("--partition", type=click.IntRange(0), metavar="N", help="Only this partition of the queue.")
@click.option("--first-offset", type=click.IntRange(0), metavar="N", help="Only letters from this offset on.")
@click.option("--last-offset", type=click.IntRange(0), metavar="N", help="Only letters up to this offset.")
@click.option("--limit", type=click.IntRange(1), metavar="N", help="Replay at most this many.")
@click.option("--values", is_flag=True, help="Show keys and values of the samples.")
@click.option("--keeps-no-offsets", is_flag=True, help="For a Java sink: confirm that it does not keep its position in "
              "its target.")
@click.option("--dry-run", is_flag=True, help="Only show what would be replayed.")
@YES
@cluster_command
def replay(session: ClusterSession, connector: str, limit: int | None, values: bool, keeps_no_offsets: bool,
           dry_run: bool, yes: bool, **chosen: Any) -> int:
    """Replay the records of a connector's dead letter queue, except those that were replayed before.

    Shows them first, then asks. A sink's records go only to this sink; a source's are written through its transforms
    and converters. Requires a running connector on heeler workers with
    errors.tolerance=all and errors.deadletterqueue.context.headers.enable=true. Exits with 1 if records were refused
    again.
    """
    from heeler.cli.client.responses import as_count
    from heeler.cli.console.output import Format

    names = {"first": "from", "end": "to"}
    wanted = {names.get(key, key): list(value) if isinstance(value, tuple) else value
              for key, value in chosen.items() if value not in (None, ())}
    order: dict[str, Any] = {"filter": wanted} | ({"limit": limit} if limit is not None else {})
    order |= {"keeps_no_offsets": True} if keeps_no_offsets else {}
    if dry_run or not yes:
        response = _replay(session, connector, {**order, "dry_run": True, "values": values})
        if dry_run or session.format is Format.TABLE:
            _show(session, response)
        count = as_count(response.get("would_replay"), "the number of letters")
        if dry_run or response.get("state") != "DONE" or not count:
            return 0 if response.get("state") == "DONE" else NO
        confirm(f"Replay {count} dead letters?", yes=yes)
    response = _replay(session, connector, order)
    _show(session, response)
    return 0 if response.get("state") == "DONE" and not response.get("refused_again") else NO


def _replay(session: ClusterSession, connector: str, order: Mapping[str, Any]) -> dict[str, Any]:
    from heeler.cli.client.responses import as_object
    from heeler.cli.client.rest_client import path_of

    path = path_of("connectors", connector, "dead-letters", "replay")
    response = as_object(session.call("POST", path, order), "a replay's progress")
    while response.get("state") == "RUNNING":
        time.sleep(_POLL_S)
        response = as_object(session.call("GET", path), "a replay's progress")
    return response


def _show(session: ClusterSession, response: Mapping[str, Any]) -> None:
    from heeler.cli.client.responses import as_list, as_object, as_text
    from heeler.cli.console.output import Format
    from heeler.cli.console.safe_text import safe

    counts = {key: count for _, key in _TOTALS if isinstance(count := response.get(key), int)}
    before = counts.get("scanned", 0) - sum(counts.get(key, 0) for key in _APART)
    rows: list[tuple[str, Any]] = [(words, counts[key]) for words, key in _TOTALS if counts.get(key)]
    if before > 0:
        rows.append(("replayed before", before))
    for key in ("by_topic", "by_stage", "by_exception"):
        kinds = as_object(response.get(key), "a replay's counts")
        rows += [(f"{key.removeprefix('by_')} {kind}", count) for kind, count in sorted(kinds.items())]
    session.show(response, _COLUMNS, rows, "There are no dead letters to replay.")
    if session.format is not Format.TABLE:
        return
    samples = [as_object(sample, "a sample") for sample in as_list(response.get("samples"), "samples")]
    if samples:
        columns = [*_SAMPLE, *(part for part in ("key", "value") if part in samples[0])]
        click.echo()
        session.show(samples, [name.upper().replace("_", " ") for name in columns],
                     [tuple(sample.get(name) for name in columns) for sample in samples])
    if response.get("error"):
        click.echo(f"heeler: the replay ended early: {safe(as_text(response.get('error')))}", err=True)
