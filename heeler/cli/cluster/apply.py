"""`heeler connectors apply`: makes the connectors of a cluster match files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from heeler.cli.client.session import (
    FILES,
    NO,
    YES,
    ChangeMade,
    ClusterSession,
    cluster_command,
    confirm,
    each,
)
from heeler.cli.cluster.create import post
from heeler.cli.console.safe_text import safe, safe_message
from spark_tasks.errors import ConnectError

if TYPE_CHECKING:
    from heeler.cli.configs.config_files import Wanted
    from heeler.cli.configs.plan import Change

_SIGNS: Final = {"create": ("+", "green"), "change": ("~", "yellow"), "delete": ("-", "red")}
_DONE: Final = {"create": "created", "change": "changed", "delete": "deleted"}


@click.command()
@click.argument("paths", nargs=-1, type=FILES, metavar="[FILE|FOLDER]...")
@click.option("-f", "--file", "more", multiple=True, type=FILES, metavar="FILE|FOLDER",
              help="Same as the FILE|FOLDER argument.")
@click.option("--dry-run", is_flag=True, help="Only show what would change, and let the worker validate it.")
@click.option("--prune", is_flag=True, help="Delete connectors of the cluster that are not in the files.")
@click.option("--exit-code", is_flag=True, help="With --dry-run: exit with code 1 if anything would change.")
@YES
@cluster_command
def apply(
    session: ClusterSession, paths: tuple[Path, ...], more: tuple[Path, ...], dry_run: bool, prune: bool,
    exit_code: bool, yes: bool,
) -> int:
    """Make the connectors match files (JSON, YAML, properties) or folders of files. Shows the difference first."""
    from heeler.cli.client.responses import as_config, as_object, expanded
    from heeler.cli.configs.config_files import read_connectors
    from heeler.cli.configs.plan import Action, plan

    if not paths and not more:
        raise click.UsageError("Specify files or folders.")
    wanted = {w.name: w for w in read_connectors([*paths, *more])}
    listed = expanded(session.call("GET", "/connectors", query={"expand": "info"}))
    current_configs = {
        name: as_config(as_object(parts.get("info"), "a connector").get("config"), "a connector's config")
        for name, parts in listed.items()}
    changes = plan({name: w.config for name, w in wanted.items()}, current_configs, prune=prune)
    shown = _hidden(session, changes, wanted, current_configs)
    pending = [change for change in changes if change.action is not Action.NONE]
    _show(session, shown, final=dry_run or not pending)
    if dry_run:
        invalid = [c.name for c in pending if c.name in wanted and not _valid(session, wanted[c.name])]
        return NO if invalid or (exit_code and pending) else 0
    if not pending:
        return 0
    confirm("Apply these changes?", yes=yes)

    def act(name: str) -> ChangeMade:
        change = next(c for c in pending if c.name == name)
        _do(session, change, wanted)
        return ChangeMade(_DONE[change.action.value])

    return each(session, {change.name: change.action.value for change in pending}, act)


def _hidden(
    session: ClusterSession, changes: Sequence[Change], wanted: Mapping[str, Wanted],
    there: Mapping[str, Mapping[str, str]],
) -> list[Change]:
    from heeler.cli.client.secret_keys import SecretKeys
    from heeler.cli.configs.masks import mask_of, secrets_of
    from heeler.cli.configs.plan import masked
    from spark_tasks.config.masking import process_secrets

    secret = SecretKeys(session)
    masked_changes = []
    for change in changes:
        before = there.get(change.name, {})
        after = wanted[change.name].config if change.name in wanted else {}
        if change.keys:
            keys = secret.keys_of(before) | secret.keys_of(after)
            process_secrets().add(change.name, secrets_of(after, keys))  # for the worker's errors
            masked_changes.append(masked(change, mask_of(before, after, secret_keys=keys)))
        else:
            masked_changes.append(change)
    return masked_changes


def _show(session: ClusterSession, changes: Sequence[Change], *, final: bool) -> None:
    from heeler.cli.configs.plan import Action, counts
    from heeler.cli.console.output import Format, print_data

    if session.format is not Format.TABLE:
        if final:
            print_data({"changes": [change.as_data() for change in changes]}, session.format)
        return
    for change in changes:
        if change.action is Action.NONE:
            continue
        sign, color = _SIGNS[change.action.value]
        click.secho(f"{sign} {safe(change.name)}", fg=color, bold=True)
        for key in change.keys:
            if key.before is not None:
                click.secho(f"    - {safe(key.key)}={safe(key.before)}", fg="red")
            if key.after is not None:
                click.secho(f"    + {safe(key.key)}={safe(key.after)}", fg="green")
    click.echo(f"{counts(changes) or 'nothing'}.")


def _do(session: ClusterSession, change: Change, wanted: Mapping[str, Wanted]) -> None:
    from heeler.cli.client.rest_client import path_of
    from heeler.cli.configs.plan import Action

    if change.action is Action.CREATE:  # fails if somebody else has created it meanwhile
        post(session, wanted[change.name])
    elif change.action is Action.CHANGE:
        session.call("PUT", path_of("connectors", change.name, "config"), dict(wanted[change.name].config))
    else:
        session.call("DELETE", path_of("connectors", change.name))


def _valid(session: ClusterSession, wanted: Wanted) -> bool:
    """Whether the worker accepts the configuration; prints its errors otherwise."""
    from heeler.cli.cluster.validate import checked

    try:
        checks = checked(session, wanted)
    except ConnectError as error:
        click.echo(f"heeler: {safe(wanted.name)}: {error}", err=True)
        return False
    for key, _, messages in checks:
        for message in messages:
            click.echo(f"heeler: {safe(wanted.name)}: {safe(key)}: {safe_message(message)}", err=True)
    return not any(messages for _, _, messages in checks)
