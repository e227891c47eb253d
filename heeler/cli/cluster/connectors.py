"""`heeler connectors`: list, show, control and change connectors."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

import click

from heeler.cli.client.session import (
    NO,
    ChangeMade,
    ClusterSession,
    cluster_command,
    cluster_group,
    connector_argument,
    each,
)
from heeler.cli.cluster.apply import apply
from heeler.cli.cluster.create import create
from heeler.cli.cluster.delete import delete
from heeler.cli.cluster.replay import replay
from heeler.cli.cluster.status import status
from heeler.cli.console.safe_text import safe


@cluster_group
def connectors() -> None:
    """Show and change connectors."""


for command in (apply, create, delete, replay, status):
    connectors.add_command(command)


@connectors.command("list")
@click.option("--show-secrets", is_flag=True, help="Do not hide passwords (in --output json and yaml).")
@cluster_command
def list_(session: ClusterSession, show_secrets: bool) -> None:
    """List all connectors with their states. Passwords are hidden."""
    from heeler.cli.client.responses import as_list, as_status, expanded
    from heeler.cli.console.output import Format

    listed = expanded(session.call("GET", "/connectors", query={"expand": ["status", "info"]}))
    rows = []
    for name, parts in listed.items():
        state = as_status(parts.get("status"))
        rows.append((name, state.kind, state.connector.state, f"{state.running}/{len(state.tasks)}",
                     state.connector.worker))
    if session.format is not Format.TABLE and not show_secrets:
        listed = _without_secrets(session, listed)
    starting = sorted({str(name) for name in as_list(session.call("GET", "/connectors"), "names")} - listed.keys())
    rows += [(name, "", "(no status yet)", "", "") for name in starting]
    session.show({**listed, **{name: {} for name in starting}},
                 ("NAME", "TYPE", "STATE", "TASKS RUNNING", "WORKER"), sorted(rows), "There are no connectors.")


def _without_secrets(session: ClusterSession, found: Mapping[str, Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
    from heeler.cli.client.responses import as_config, as_object
    from heeler.cli.client.secret_keys import SecretKeys

    secret, hidden = SecretKeys(session), {}
    for name, parts in found.items():
        hidden[name] = parts
        if "info" in parts:
            info = as_object(parts["info"], "a connector")
            config = as_config(info.get("config"), "a connector's config")
            mask = secret.mask(config)
            hidden[name] = {**parts, "info": {**info, "config": {k: mask(k, v) for k, v in config.items()}}}
    return hidden


@connectors.command()
@connector_argument()
@click.option("--show-secrets", is_flag=True, help="Do not hide passwords.")
@cluster_command
def show(session: ClusterSession, connector: str, show_secrets: bool) -> None:
    """Show a connector's configuration and state. Passwords are hidden."""
    from heeler.cli.client.responses import as_config, as_object, as_status, as_text
    from heeler.cli.client.rest_client import RestError, path_of
    from heeler.cli.client.secret_keys import SecretKeys
    from heeler.cli.console.output import Format

    response = as_object(session.call("GET", path_of("connectors", connector)), "a connector")
    config = as_config(response.get("config"), "a connector's config")
    if not show_secrets:
        mask = SecretKeys(session).mask(config)
        config = {key: mask(key, value) for key, value in config.items()}
    session.show({**response, "config": config}, ("KEY", "VALUE"), sorted(config.items()))
    if session.format is not Format.TABLE:
        return
    click.echo(f"\n{safe(as_text(response.get('name')))} is a {safe(as_text(response.get('type')))} connector.")
    try:
        status_of = as_status(session.call("GET", path_of("connectors", connector, "status")))
    except RestError as error:
        if error.status != HTTPStatus.NOT_FOUND:
            raise
        return  # it has none yet
    for part in status_of:
        restarts = f", restarts: {safe(part.restarts)}" if part.restarts else ""
        stalled = f", {safe(part.problem)}" if part.stalled else ""
        name = "connector" if part.task is None else f"task {part.task}"
        click.echo(f"{name}: {safe(part.state)}{stalled}{restarts}")


def _target(verb: str, done: str, doc: str) -> None:
    @connectors.command(verb, help=doc)
    @connector_argument(several=True)
    @cluster_command
    def change(session: ClusterSession, connectors: tuple[str, ...]) -> int:
        from heeler.cli.client.rest_client import path_of

        def act(name: str) -> ChangeMade:
            return ChangeMade(done, session.call("PUT", path_of("connectors", name, verb)))

        return each(session, dict.fromkeys(connectors, verb), act)


_target("pause", "will pause", "Pause connectors and their tasks; tasks keep their resources.")
_target("resume", "will resume", "Resume paused or stopped connectors.")
_target("stop", "stopped", "Stop connectors and end their tasks, as offsets set and offsets reset require.")


@connectors.command()
@connector_argument(several=True)
@click.option("--include-tasks", is_flag=True, help="Restart the tasks too.")
@click.option("--only-failed", is_flag=True, help="Restart only the connector and tasks that have failed.")
@click.option("--task", type=click.IntRange(0), metavar="N", help="Restart only this task.")
@cluster_command
def restart(
    session: ClusterSession, connectors: tuple[str, ...], include_tasks: bool, only_failed: bool, task: int | None
) -> int:
    """Restart connectors, optionally with their tasks, or only what has failed."""
    from heeler.cli.client.rest_client import path_of

    if task is not None and (include_tasks or only_failed):
        raise click.UsageError("--task cannot be used with --include-tasks or --only-failed")
    query = {"includeTasks": str(include_tasks).lower(), "onlyFailed": str(only_failed).lower()}

    def act(name: str) -> ChangeMade:
        if task is not None:
            path = path_of("connectors", name, "tasks", str(task), "restart")
            return ChangeMade(f"task {task} restarts", session.call("POST", path))
        response = session.call("POST", path_of("connectors", name, "restart"), query=query)
        return ChangeMade("restarts" if response is None else _restarting(response), response)

    action = "restart" if task is None else f"restart task {task}"
    return each(session, dict.fromkeys(connectors, action), act)


def _restarting(response: Any) -> str:
    """What a restart plan (KIP-745) restarts, in words."""
    from heeler.cli.client.responses import as_status

    parts = [part.task for part in as_status(response) if part.state == "RESTARTING"]
    names = ["the connector" if task is None else f"task {task}" for task in parts]
    return f"restarts {', '.join(names)}" if names else "nothing to restart"


@connectors.command()
@connector_argument()
@click.option("--show-secrets", is_flag=True, help="Do not hide passwords.")
@cluster_command
def tasks(session: ClusterSession, connector: str, show_secrets: bool) -> int:
    """Show a connector's tasks: state, worker, configuration. Passwords are hidden."""
    from heeler.cli.client.responses import as_config, as_list, as_object, as_status
    from heeler.cli.client.rest_client import path_of
    from heeler.cli.client.secret_keys import SecretKeys

    tasks = as_list(session.call("GET", path_of("connectors", connector, "tasks")), "a list of tasks")
    parts = {p.task: p for p in as_status(session.call("GET", path_of("connectors", connector, "status"))).tasks}
    secret = SecretKeys(session)
    of_connector = frozenset[str]() if show_secrets else secret.keys_of(
        session.call("GET", path_of("connectors", connector, "config")))
    rows: list[tuple[Any, ...]] = []
    data = []
    for item in tasks:
        response = as_object(item, "a task")
        number = as_object(response.get("id"), "a task's id").get("task")
        config = as_config(response.get("config"), "a task's config")
        if not show_secrets:
            mask = secret.mask(config, of_connector)
            config = {key: mask(key, value) for key, value in config.items()}
        part = parts.get(number) if isinstance(number, int) else None
        state, worker = (part.state, part.worker) if part else ("(no status yet)", "")
        data.append({"id": response["id"], "config": config, "state": state, "worker_id": worker})
        rows.append((number, state, worker, ", ".join(f"{k}={v}" for k, v in sorted(config.items()))))
    session.show(data, ("TASK", "STATE", "WORKER", "CONFIG"), rows, "The connector has no tasks.")
    return NO if any(part.state == "FAILED" for part in parts.values()) else 0


@connectors.command()
@connector_argument()
@cluster_command
def story(session: ClusterSession, connector: str) -> None:
    """Show what happened to a connector and why, on the workers of --url and those that run it or its tasks. Requires
    heeler workers.

    Workers with their own admin.listeners serve the story only there: give all of these addresses as --url. The table
    shows only the first line of texts such as stack traces; -o yaml shows all.
    """
    from heeler.cli.client.stories import row_of, whole_story

    steps = whole_story(session, connector)
    rows = [(step["worker"], *row_of(step)) for step in steps]
    session.show({"connector": connector, "story": steps},
                 ("WORKER", "AT", "STEP", "BECAUSE OF", "WHAT", "EFFECTS"), rows, "No events have been recorded.")


@connectors.command()
@connector_argument()
@click.option("--reset", is_flag=True, help="Clear the list.")
@cluster_command
def topics(session: ClusterSession, connector: str, reset: bool) -> int:
    """Show the topics that a connector has read or written."""
    from heeler.cli.client.responses import as_list, as_object
    from heeler.cli.client.rest_client import path_of

    if reset:
        path = path_of("connectors", connector, "topics", "reset")
        return each(session, {connector: "reset topics"},
                    lambda _: ChangeMade("the list of topics was cleared", session.call("PUT", path)))
    response = as_object(session.call("GET", path_of("connectors", connector, "topics")), "a list of topics")
    names = as_list(as_object(response.get(connector), "a list of topics").get("topics"), "a list of topics")
    if not names:  # so is the list of a connector that does not exist
        session.call("GET", path_of("connectors", connector))
    session.show(sorted(names, key=str), ("TOPIC",), [(topic,) for topic in sorted(names, key=str)],
                 "The connector has not used any topic yet.")
    return 0
