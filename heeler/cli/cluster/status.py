"""`heeler connectors status`: the states of connectors and tasks, once or continuously."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import click

from heeler.cli.client.session import NO, ClusterSession, cluster_command, complete_connectors
from heeler.cli.console.safe_text import safe, safe_lines
from heeler.cli.console.terminal import interrupting_signals
from spark_tasks.errors import ConnectError

if TYPE_CHECKING:
    from heeler.cli.client.responses import ConnectorOverview

_COLUMNS = ("CONNECTOR", "PART", "STATE", "WORKER", "RESTARTS", "ERROR")
_SPARE = ("WORKER",)  # left out on a narrow terminal
_RESTARTS = _COLUMNS.index("RESTARTS")


@click.command()
@click.argument("connectors", nargs=-1, shell_complete=complete_connectors, metavar="[CONNECTOR]...")
@click.option("-w", "--watch", is_flag=True, help="Show changes until Ctrl-C.")
@click.option("--interval", type=click.FloatRange(0.1), default=1.0, show_default=True, metavar="SECONDS",
              help="Time between two refreshes of --watch.")
@click.option("--trace", is_flag=True, help="Show failures with their full stack traces, and where stalled tasks hang.")
@cluster_command
def status(session: ClusterSession, connectors: tuple[str, ...], watch: bool, interval: float, trace: bool) -> int:
    """Show the states of connectors and their tasks. Exits with 1 if one has failed or stalled."""
    if watch:
        _watch(session, connectors, interval)
        return 0
    code = 0

    def refused(name: str, error: ConnectError) -> None:
        nonlocal code
        code = code or getattr(error, "exit_code", 2)
        click.echo(f"heeler: {safe(name)}: {error}", err=True)

    data, statuses = ask(session, connectors, refused if len(connectors) > 1 else None)
    if data or not code:
        session.show(data, *_table(rows(statuses)), "There are no connectors.")
    if trace and session.format == "table":
        for status in statuses:
            for part in (p for p in status if p.problem):
                name = "connector" if part.task is None else f"task {part.task}"
                click.echo(f"\n{safe(status.name)}, {name}:\n{safe_lines(part.trace or part.stalled)}")
    return code or (NO if any(status.failed or status.stalled for status in statuses) else 0)


def ask(
    session: ClusterSession, names: Iterable[str], refused: Callable[[str, ConnectError], None] | None = None
) -> tuple[dict[str, Any], list[ConnectorOverview]]:
    """The statuses of these connectors, or of all if none is named: the responses, and their parsed form. `refused` is
    called for each named connector whose status the worker refuses; without it, the first such error is raised.
    """
    from heeler.cli.client.responses import as_status, expanded
    from heeler.cli.client.rest_client import RestError, path_of

    wanted = list(names)
    data: dict[str, Any] = {}
    if wanted:
        for name in wanted:
            try:
                data[name] = session.call("GET", path_of("connectors", name, "status"))
            except RestError as error:
                if refused is None:
                    raise
                refused(name, error)
    else:
        listed = expanded(session.call("GET", "/connectors", query={"expand": "status"}))
        data = {name: parts.get("status") for name, parts in listed.items()}
    return data, [as_status(response) for response in data.values()]


def rows(statuses: Iterable[ConnectorOverview]) -> list[tuple[Any, ...]]:
    """A row for each connector and task. The cause of a restart is left out if the last column already shows it."""
    table: list[tuple[Any, ...]] = []
    for overview in statuses:
        for part in overview:
            name = overview.kind if part.task is None else f"task {part.task}"
            error = part.trace.strip().partition("\n")[0]
            restarts = part.restarts.removesuffix(f"; failed: {error}") if error else part.restarts
            table.append((overview.name, name, part.state, part.worker, restarts, part.problem))
    return table


def _table(found: Sequence[tuple[Any, ...]]) -> tuple[tuple[str, ...], list[tuple[Any, ...]]]:
    """Columns and rows, without the column of restarts if there were no automatic ones."""
    if any(row[_RESTARTS] for row in found):
        return _COLUMNS, list(found)
    return tuple(name for name in _COLUMNS if name != "RESTARTS"), [
        (*row[:_RESTARTS], *row[_RESTARTS + 1:]) for row in found]


def _watch(session: ClusterSession, names: tuple[str, ...], interval: float) -> None:
    """On a terminal, updates a table in place; elsewhere, prints the differences from the last refresh as lines, or the
    whole as one document.
    """
    import sys

    from heeler.cli.console.output import is_screen

    if session.format == "table" and is_screen():
        _live(session, names, interval)
        return
    before: Any = None
    while True:
        data, statuses = ask(session, names)
        if session.format != "table":
            if data != before:
                session.show(data, (), ())
            before = data
        else:
            now = {row[:2]: row for row in rows(statuses)}
            gone = [(*key, "(gone)") for key in (before or {}) if key not in now]
            for row in [*(row for key, row in now.items() if row != (before or {}).get(key)), *gone]:
                click.echo("  ".join(safe(cell) for cell in row if cell))
            before = now
        sys.stdout.flush()
        time.sleep(interval)


def _live(session: ClusterSession, names: tuple[str, ...], interval: float) -> None:
    from rich.console import Group
    from rich.live import Live
    from rich.text import Text

    from heeler.cli.console.output import console, fitting

    # The signals, too, show the cursor again.
    with interrupting_signals(), Live(console=console(), auto_refresh=False, vertical_overflow="crop") as live:
        while True:
            try:
                shown: Any = fitting(*_table(rows(ask(session, names)[1])), _SPARE)
            except ConnectError as error:  # the worker may come back
                shown = Group(Text(str(error), "bold red"))
            live.update(shown, refresh=True)
            time.sleep(interval)
