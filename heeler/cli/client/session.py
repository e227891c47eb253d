"""The common part of all commands that talk to a cluster: options, a client, exit codes for errors, output."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
from click.core import ParameterSource
from click.shell_completion import CompletionItem

from heeler.cli.console.output import Format, print_data, print_table
from heeler.cli.console.terminal import errors_without_trace, shown_when_slow
from spark_tasks.errors import ConnectError

if TYPE_CHECKING:
    from heeler.cli.client.rest_client import ConnectClient

NO: Final = 1
"""The exit code that reports a problem found by the command (docs/cli.md)."""
_NOT_FOUND: Final = 404
_GIVEN: Final = (ParameterSource.COMMANDLINE, ParameterSource.DEFAULT_MAP)
_NO_SUCH_PATH: Final = "HTTP 404 Not Found"
"""The message of Jersey, and so of Kafka Connect and heeler, for a path that an address does not serve."""


@dataclass(frozen=True, slots=True)
class ClusterSession:
    """The client and the output format of one command."""

    client: ConnectClient
    format: Format

    def call(self, method: str, path: str, body: Any = None, query: Mapping[str, Any] | None = None) -> Any:
        """Calls the client, with a spinner on a terminal if it takes long."""
        from heeler.cli.client.rest_client import RestError

        try:
            with shown_when_slow(f"Waiting for {method} {path.split('/')[1]} …"):
                return self.client.call(method, path, body, query)
        except RestError as error:
            if error.status != _NOT_FOUND or error.message != _NO_SUCH_PATH:
                raise
            raise RestError(error.status, f"{error.message}: {method} {path} is not served at this address. Workers of "
                            "Java Kafka Connect have fewer paths than heeler's. A worker with admin.listeners serves "
                            "some paths only there: then specify such a listener with --url") from None

    def show(self, data: Any, columns: Sequence[str], rows: Iterable[Sequence[Any]], nothing: str = "") -> None:
        """Prints the rows as a table, or the data as JSON or YAML. `nothing` is printed for an empty table."""
        if self.format is Format.TABLE:
            print_table(columns, rows, nothing)
        else:
            print_data(data, self.format)

    def tell(self, text: str) -> None:
        """Prints a line, unless the output is JSON or YAML."""
        if self.format is Format.TABLE:
            click.echo(text)


def client_of(urls: Sequence[str], profile: str | None, timeout: float) -> ConnectClient:
    """A client of the workers at these URLs, or of a profile's. Raises SetupError."""
    from heeler.cli.client.profiles import profile_of
    from heeler.cli.client.rest_client import ConnectClient

    chosen = profile_of(urls, profile, os.environ)
    if chosen.insecure:
        import urllib3

        urllib3.disable_warnings()
    return ConnectClient(chosen.urls, timeout=timeout, tls=chosen.tls(), headers=chosen.headers())


def cluster_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """The options of all commands that talk to a cluster: `urls`, `profile`, `output`, `timeout`."""
    for option in (
        click.option("--timeout", type=click.FloatRange(0), default=60, show_default=True, metavar="SECONDS",
                     help="How long to wait while the cluster rebalances."),
        click.option("-o", "--output", type=click.Choice([f.value for f in Format]), default="table",
                     show_default=True),
        click.option("--profile", metavar="NAME", help="Take address, user and certificates from a profile. Also: "
                                                       "HEELER_PROFILE."),
        click.option("--url", "urls", multiple=True, metavar="URL",
                     help="A worker's REST address; several (with commas, or --url again) are tried in turn. Also: "
                          "HEELER_URL.  [default: http://localhost:8083]"),
    ):
        function = option(function)
    return function


def pass_on(context: click.Context, options: Mapping[str, Any]) -> None:
    """Makes options that stand before a command, or before a group of it, the defaults of the same options of the
    command. Raises UsageError if the command has no such option.
    """
    command = context.command
    part = command.commands.get(context.invoked_subcommand or "") if isinstance(command, click.Group) else None
    if part is None:
        return
    given = {name: value for name, value in {**options, "urls": _urls(context, options["urls"])}.items()
             if context.get_parameter_source(name) in _GIVEN}
    known = {parameter.name for parameter in part.params}
    for parameter in command.params:
        if parameter.name in given and parameter.name not in known:
            raise click.UsageError(f"{part.name} has no option {parameter.opts[-1]}.", context)
    context.default_map = {str(part.name): given}


def _urls(context: click.Context, urls: tuple[str, ...]) -> tuple[str, ...]:
    """The URLs; none if they precede the command and a profile follows it, because the profile wins."""
    source = context.get_parameter_source
    before = source("profile") is ParameterSource.COMMANDLINE and source("urls") is ParameterSource.DEFAULT_MAP
    return () if before else urls


def cluster_group(function: Callable[..., Any]) -> click.Group:
    """Creates a command group that also accepts the cluster options. Commands without cluster access ignore them."""

    @click.group()
    @cluster_options
    @click.pass_context
    @functools.wraps(function)
    def group(context: click.Context, /, **options: Any) -> None:
        pass_on(context, options)

    return group


def cluster_command(function: Callable[..., Any]) -> Callable[..., Any]:
    """Adds the options of a cluster to a command, and passes a ClusterSession as its first argument. If the command
    returns a number, that is the exit code.
    """

    @cluster_options
    @functools.wraps(function)
    def run(*args: Any, urls: tuple[str, ...], profile: str | None, output: str, timeout: float, **kw: Any) -> None:
        urls = _urls(click.get_current_context(), urls)
        with errors_without_trace(), deep_responses_refused():
            code = function(ClusterSession(client_of(urls, profile, timeout), Format(output)), *args, **kw)
        sys.exit(code or 0)

    return run


@contextmanager
def deep_responses_refused() -> Iterator[None]:
    """Raises UnexpectedResponseError for a response that is nested too deeply to be shown."""
    try:
        yield
    except RecursionError:
        from heeler.cli.client.rest_client import UnexpectedResponseError

        raise UnexpectedResponseError("A response is nested too deeply to be shown. Is that a Kafka Connect worker?"
                                      ) from None


def confirm(question: str, *, yes: bool) -> None:
    """Asks for confirmation, unless --yes was given. Raises UsageError without a terminal, click.Abort for no."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise click.UsageError(f"{question} No terminal to confirm on; use --yes.")
    click.confirm(question, abort=True, err=True)


@dataclass(frozen=True, slots=True)
class ChangeMade:
    """The outcome of a change: `words` for the table, and the worker's response, if it has one, for JSON and YAML."""

    words: str
    response: Any = None


def each(session: ClusterSession, actions: Mapping[str, str], act: Callable[[str], ChangeMade]) -> int:
    """Calls `act` for each name and reports errors, which do not affect other names. Returns the first error's exit
    code.

    `actions`: the requested actions, by name. With -o json or yaml, one document is printed: {"changes": [{"name",
    "action", and "response" or "error", if there is one}]}.
    """
    from heeler.cli.console.safe_text import safe

    code = 0
    changes: list[dict[str, Any]] = []
    for name, action in actions.items():
        change: dict[str, Any] = {"name": name, "action": action}
        changes.append(change)
        try:
            done = act(name)
        except ConnectError as error:
            code = code or getattr(error, "exit_code", 2)
            change["error"] = str(error)
            click.echo(f"heeler: {safe(name)}: {error}", err=True)
            continue
        if done.response is not None:
            change["response"] = done.response
        session.tell(f"{safe(name)}: {done.words}")
    if session.format is not Format.TABLE:
        print_data({"changes": changes}, session.format)
    return code


def complete_connectors(context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The names of connectors, for the shell; empty if no worker responds at once."""
    from heeler.cli.client.responses import as_list
    from heeler.cli.console.safe_text import unsafe

    with suppress(ConnectError, OSError):
        near = _nearest(context)
        client = client_of(near.get("urls") or (), near.get("profile"), 0)
        names = [n for n in as_list(client.call("GET", "/connectors"), "names") if isinstance(n, str) and not unsafe(n)]
        return [CompletionItem(name) for name in sorted(names)
                if name.startswith(incomplete) and not name.startswith("-")]  # it would be an option
    return []


def _nearest(context: click.Context) -> Mapping[str, Any]:
    """The options of the command, or else of what stands before it, that specify a cluster."""
    level: click.Context | None = context
    while level is not None:
        if level.params.get("urls") or level.params.get("profile"):
            return level.params
        level = level.parent
    return {}


def connector_argument(*, several: bool = False) -> Callable[[Any], Any]:
    """The argument CONNECTOR, or CONNECTOR..., which the shell can complete."""
    name = "connectors" if several else "connector"
    return click.argument(name, nargs=-1 if several else 1, required=True, shell_complete=complete_connectors,
                          metavar="CONNECTOR..." if several else "CONNECTOR")


FILES: Final = click.Path(exists=True, path_type=Path)
YES: Final = click.option("-y", "--yes", is_flag=True, help="Do not ask for confirmation.")
