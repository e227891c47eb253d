"""The output of commands: tables for people, JSON or YAML for programs. Slow imports happen in the functions."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

import click
from typing_extensions import override

from heeler.cli.console.safe_text import safe, safe_json, safe_yaml, unsafe

if TYPE_CHECKING:
    from rich.console import Console, Group
    from rich.table import Table

_GAP: Final = 2  # between two columns
_MIN_WIDTH: Final = 12  # the minimum width of a truncated column
WIDE: Final = 100_000  # the width of a table that goes into a file or a pipe: each row is one line
STYLES: Final = {
    "RUNNING": "green", "PAUSED": "yellow", "STOPPED": "yellow", "FAILED": "bold red", "UNASSIGNED": "magenta",
    "RESTARTING": "cyan", "create": "green", "change": "yellow", "delete": "red", "ok": "green", "error": "bold red",
    "warning": "yellow",
}


class Format(StrEnum):
    """The values of --output."""

    TABLE = "table"
    JSON = "json"
    YAML = "yaml"


def data_text(data: Any, form: Format) -> str:
    """Data as JSON or YAML, with characters that are unsafe on a terminal escaped."""
    if form is Format.YAML:
        return _yaml(data)
    return safe_json(json.dumps(data, indent=2, ensure_ascii=False))


def print_data(data: Any, form: Format) -> None:
    """Prints data as JSON or YAML, which is in UTF-8 whatever the terminal's encoding."""
    click.echo(data_text(data, form).encode())


def console() -> Console:
    """A console on standard output; lines are wrapped only if that is a terminal."""
    from rich.console import Console

    return Console(width=None if sys.stdout.isatty() else WIDE, highlight=False, markup=False, emoji=False)


def is_screen() -> bool:
    """Whether standard output is a terminal that can show a text instead of another."""
    return sys.stdout.isatty() and not console().is_dumb_terminal


def table(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> Table:
    """A table with safe text in its cells and colored states."""
    from rich.table import Table
    from rich.text import Text

    grid = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for column in columns:
        grid.add_column(Text(column), overflow="fold")
    for row in rows:
        grid.add_row(*(Text(safe(cell), STYLES.get(str(cell), "")) for cell in row))
    return grid


def fitting(
    columns: Sequence[str], rows: Iterable[Sequence[Any]], spare: Sequence[str], out: Console | None = None
) -> Group:
    """A table that fits the terminal, with one line for each row. `spare` columns are left out, one after the other,
    until the others fit; the first and the last column may be truncated. A line below gives the number of rows that do
    not fit.
    """
    from rich.cells import cell_len
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    width, height = (out or console()).size
    cells = [[safe(cell) for cell in row] for row in rows]
    wide = [max(cell_len(text) for text in (column, *(row[index] for row in cells)))
            for index, column in enumerate(columns)]
    first, last = 0, len(columns) - 1
    visible_columns = list(range(len(columns)))

    def min_width(index: int) -> int:
        return min(wide[index], _MIN_WIDTH) if index in (first, last) else wide[index]

    for name in (*spare, columns[last]):
        if sum(min_width(index) + _GAP for index in visible_columns) <= width:
            break
        visible_columns.remove(columns.index(name))
    room = max(_MIN_WIDTH, width - sum(min_width(index) + _GAP for index in visible_columns if index != first) - _GAP)
    max_widths = {first: min(wide[first], room)}
    used = sum(max_widths.get(index, wide[index]) + _GAP for index in visible_columns if index != last)
    max_widths[last] = max(1, width - used)
    fitted = Table(box=None, pad_edge=False, header_style="bold", padding=(0, _GAP, 0, 0))
    for index in visible_columns:
        fitted.add_column(Text(columns[index]), no_wrap=True, overflow="ellipsis", max_width=max_widths.get(index))
    lines = max(1, height - 1)
    shown = cells if len(cells) <= lines else cells[:max(0, lines - 1)]
    for row in shown:
        fitted.add_row(*(Text(row[index], STYLES.get(row[index], "")) for index in visible_columns))
    more = len(cells) - len(shown)
    return Group(fitted, *([Text(f"… and {more} more")] if more else []))


def print_table(columns: Sequence[str], rows: Iterable[Sequence[Any]], nothing: str = "") -> None:
    """Prints rows with column headings, or `nothing` if there are no rows."""
    rows = list(rows)
    if not rows:
        click.echo(nothing)
        return
    out = console()
    with out.capture() as captured:
        out.print(table(columns, rows))
    lines = [line.rstrip() for line in captured.get().splitlines()]
    click.echo("\n".join(lines))


def _yaml(data: Any) -> str:
    import yaml

    class Dumper(yaml.SafeDumper):
        """Writes no anchors; strings with unsafe characters are in double quotes, which allow escapes."""

        @override
        def ignore_aliases(self, data: Any) -> bool:
            del data
            return True

    def text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
        return dumper.represent_scalar("tag:yaml.org,2002:str", value, style='"' if unsafe(value) else None)

    Dumper.add_representer(str, text)
    return safe_yaml(yaml.dump(data, Dumper=Dumper, sort_keys=False, allow_unicode=True, width=1000)).rstrip("\n")
