"""`heeler top`: connectors and tasks on a full screen, with states, records per second, lag and errors."""

from __future__ import annotations

import re
import sys
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Final

import click

from heeler.cli.client.session import ClusterSession, cluster_command
from heeler.cli.console.terminal import interrupting_signals
from spark_tasks.errors import ConnectError

if TYPE_CHECKING:
    from heeler.cli.client.responses import ConnectorOverview

COLUMNS: Final = ("CONNECTOR", "PART", "STATE", "RECORDS/S", "LAG", "ERRORS", "WORKER", "PROBLEM")
SPARE: Final = ("WORKER", "ERRORS", "LAG", "RECORDS/S")  # left out, in this order, on a narrow terminal
_MAX_COUNT: Final = 2**63
Place = tuple[str, int]
"""A task: its connector and number."""
_SAMPLE = re.compile(
    r"^(heeler_(?:task_records_total|task_errors_total|sink_lag_records))\{(.*)\} (\S+)$", re.MULTILINE)
_LABEL = re.compile(r'(?<!\w)(\w++)="((?:[^"\\]++|\\.)*+)"')


@dataclass(slots=True)
class TopFigures:
    """The figures of tasks from the workers' metrics: records since the start, lag, errors."""

    at: float  # seconds
    records: dict[Place, float] = field(default_factory=dict)
    lag: dict[Place, float] = field(default_factory=dict)
    errors: dict[Place, float] = field(default_factory=dict)


@click.command()
@click.option("--interval", type=click.FloatRange(0.2), default=2.0, show_default=True, metavar="SECONDS")
@click.option("--times", type=click.IntRange(1), metavar="N", help="Exit after this many refreshes.")
@cluster_command
def top(session: ClusterSession, interval: float, times: int | None) -> None:
    """Watch all connectors and tasks on a full screen, until Ctrl-C. Failed and stalled ones come first.

    Records, lag and errors come from heeler's metrics. For Java workers, only the rate of sinks is known, from offsets.
    """
    from heeler.cli.cluster.status import ask
    from heeler.cli.console.output import is_screen

    before: TopFigures | None = None
    screen = _Screen(live=times is None and session.format == "table" and is_screen())
    with screen:
        count = 0
        while True:
            try:
                statuses = ask(session, ())[1]
                now = _numbers(session, statuses)
                screen.show(session, lines(statuses, before, now))
                before = now
            except ConnectError as error:
                if times is not None:
                    raise
                screen.say(str(error))  # the workers may come back
            count += 1
            if count == times:
                return
            time.sleep(interval)


@dataclass(frozen=True, slots=True)
class TopLine:
    """A connector with the sums of its tasks (`task` is None), or a task. A figure that is not known is None."""

    connector: str
    type: str
    task: int | None
    state: str
    records_per_second: float | None
    lag: float | None
    errors: float | None
    worker: str
    problem: str

    def cells(self) -> tuple[str, ...]:
        """Its cells of the table."""
        figures = (self.records_per_second, self.lag, self.errors)
        return (self.connector, self.type if self.task is None else f"task {self.task}", self.state,
                *("-" if figure is None else f"{figure:,.0f}" for figure in figures), self.worker, self.problem)


def lines(statuses: Iterable[ConnectorOverview], before: TopFigures | None, now: TopFigures) -> list[TopLine]:
    """A line for each connector and for each task. Failed connectors come first, then those with a stalled task."""
    table: list[TopLine] = []
    for overview in sorted(statuses, key=lambda status: (not status.failed, not status.stalled, status.name)):
        places = [(overview.name, part.task) for part in overview.tasks if part.task is not None]
        for part in overview:
            own_places = places if part.task is None else [(overview.name, part.task)]
            pace = [rate for place in own_places if (rate := _rate(before, now, place)) is not None]
            table.append(TopLine(
                overview.name, overview.kind, part.task, part.state, round(sum(pace), 1) if pace else None,
                _sum(now.lag, own_places), _sum(now.errors, own_places), part.worker, part.problem))
    return table


def parse_metrics(text: str, into: TopFigures) -> None:
    """Adds the figures in one worker's /metrics. Other lines are skipped."""
    for name, labels, value in _SAMPLE.findall(text):
        parsed = {key: re.sub(r"\\(.)", lambda m: "\n" if m[1] == "n" else m[1], word) for key, word in
                _LABEL.findall(labels)}
        try:
            place, number = (parsed["connector"], int(parsed["task"])), float(value)
        except (KeyError, ValueError):
            continue
        if not _is_count(number):
            continue
        if name == "heeler_task_records_total":
            if parsed.get("stage") == "write":
                into.records[place] = into.records.get(place, 0) + number
        else:
            kept = into.lag if name == "heeler_sink_lag_records" else into.errors
            kept[place] = kept.get(place, 0) + number


def _is_count(number: float) -> bool:
    """Whether a worker can have counted so far; a response may have any number, or none (NaN)."""
    return 0 <= number < _MAX_COUNT


def _rate(before: TopFigures | None, now: TopFigures, place: Place) -> float | None:
    if before is None or place not in before.records or place not in now.records or now.at <= before.at:
        return None
    return max(0.0, now.records[place] - before.records[place]) / (now.at - before.at)  # 0: restarted


def _sum(numbers: Mapping[Place, float], places: Sequence[Place]) -> float | None:
    known = [numbers[place] for place in places if place in numbers]
    total = sum(known)
    return None if not known else int(total) if total == int(total) else total


def _numbers(session: ClusterSession, statuses: Sequence[ConnectorOverview]) -> TopFigures:
    """Collects the figures from all workers."""
    from heeler.cli.client.responses import workers

    found = TopFigures(time.monotonic())
    found_metrics = False
    pages: dict[str, str] = {}
    for url in workers(session.client, statuses):
        text = session.client.fetch_text(url, "/metrics?names=heeler")
        if text and text not in pages.values():  # one worker may have two addresses
            pages[url] = text
            found_metrics = True
            parse_metrics(text, found)
    if not found_metrics:
        _by_offsets(session, statuses, found)
    return found


def _by_offsets(session: ClusterSession, statuses: Iterable[ConnectorOverview], found: TopFigures) -> None:
    """The rate of sinks by their committed offsets, all counted for the first task."""
    from heeler.cli.client.rest_client import path_of

    sums: dict[Place, float] = defaultdict(float)
    for one in statuses:
        if one.kind != "sink" or not one.tasks:
            continue
        try:
            response = session.client.call("GET", path_of("connectors", one.name, "offsets"))
        except ConnectError:  # deleted since, or a worker that is older than Kafka 3.5
            continue
        for item in response.get("offsets", []) if isinstance(response, dict) else []:
            offset = item.get("offset") if isinstance(item, dict) else None
            position = offset.get("kafka_offset") if isinstance(offset, dict) else None
            if isinstance(position, int) and _is_count(position):
                sums[one.name, one.tasks[0].task or 0] += position
    found.records.update(sums)


class _Screen:
    """A live full screen on a terminal; otherwise one table after the other."""

    def __init__(self, *, live: bool) -> None:
        self._live: Any = None
        self._end = ExitStack()
        if live:
            from rich.live import Live

            from heeler.cli.console.output import console

            self._live = Live(console=console(), screen=True, auto_refresh=False, vertical_overflow="crop")

    def __enter__(self) -> None:
        if self._live is not None:
            self._end.enter_context(interrupting_signals())  # they, too, restore the terminal
            self._end.enter_context(self._live)

    def __exit__(self, *_: object) -> None:
        self._end.close()

    def show(self, session: ClusterSession, found: Sequence[TopLine]) -> None:
        """Shows lines, in place of the former ones on a terminal."""
        from heeler.cli.console.output import fitting

        rows = [line.cells() for line in found]
        if self._live is not None:
            self._live.update(fitting(COLUMNS, rows, SPARE), refresh=True)
            return
        session.show([asdict(line) for line in found], COLUMNS, rows, "There are no connectors.")
        sys.stdout.flush()

    def say(self, text: str) -> None:
        """Shows why there are no new figures."""
        from rich.text import Text

        if self._live is not None:
            self._live.update(Text(text, "bold red"), refresh=True)
        else:
            click.echo(text, err=True)
