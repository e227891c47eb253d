"""`heeler doctor`: finds problems of an installation, and gives advice."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from heeler.cli.client.session import NO, client_of
from heeler.cli.console.output import Format, print_data, print_table
from heeler.cli.console.terminal import errors_without_trace, logging_disabled, shown_when_slow

if TYPE_CHECKING:
    from heeler.doctor.findings import Check, Finding

_SKEW_S: Final = 2.0  # the Date header has whole seconds
_HEALTH: Final = "a worker's health"


@click.command()
@click.argument("file", required=False, type=click.Path(dir_okay=False, path_type=Path))
@click.option("--override", "overrides", multiple=True, metavar="KEY=VALUE", help="Override a setting in FILE.")
@click.option("--url", "urls", multiple=True, metavar="URL", help="Also examine these workers. Also: HEELER_URL.")
@click.option("--profile", metavar="NAME", help="Also examine the workers of a profile.")
@click.option("-o", "--output", type=click.Choice([f.value for f in Format]), default="table", show_default=True)
@click.pass_context
def doctor(
    context: click.Context, file: Path | None, overrides: tuple[str, ...], urls: tuple[str, ...],
    profile: str | None, output: str,
) -> None:
    """Examine this machine and, with a worker properties FILE, its settings, plugins, certificates, Kafka and topics.

    Reports problems and what to do about them. Changes nothing. Exits with 1 if there is an error, not for
    warnings.
    """
    with errors_without_trace():
        with logging_disabled(logging.CRITICAL), shown_when_slow("Examining …"):
            findings = list(_findings(file, overrides, urls, profile))
        _show(findings, Format(output))
    context.exit(NO if any(finding.verdict == "error" for finding in findings) else 0)


def _show(found: Sequence[Finding], form: Format) -> None:
    from spark_tasks.config.masking import process_secrets

    mask = process_secrets().mask
    if form is Format.TABLE:
        rows = [(f.about, f.verdict.value, " ".join(mask(f.message).split())) for f in found]  # each is one line
        print_table(("CHECK", "RESULT", "MESSAGE"), rows)
    else:
        data = [{"about": f.about, "verdict": f.verdict.value, "message": mask(f.message)} for f in found]
        print_data(data, form)


def _findings(
    file: Path | None, overrides: Sequence[str], urls: Sequence[str], profile: str | None
) -> Iterator[Finding]:
    from heeler.doctor import machine
    from heeler.doctor.findings import findings_of

    checks: list[tuple[str, Check]] = [("Java", machine.java), ("Spark", machine.spark), ("limits", machine.limits)]
    for about, check in checks:
        yield from findings_of(about, check)
    if file is not None:
        yield from _of_worker(file, overrides)
    if urls or profile or os.environ.get("HEELER_URL"):
        for url in client_of(urls, profile, 0).urls:
            yield from findings_of("workers", lambda url=url: _running(url, urls, profile))  # type: ignore[misc]


def _of_worker(file: Path, overrides: Sequence[str]) -> Iterator[Finding]:
    import datetime as dt

    from heeler.doctor import worker
    from heeler.doctor.findings import Finding, Verdict, findings_of
    from heeler.worker.config import load_worker_config
    from spark_tasks.errors import ConnectError

    try:
        config = load_worker_config(file, overrides, os.environ)
    except ConnectError as error:
        yield Finding("settings", Verdict.ERROR, str(error))
        return
    yield from findings_of("settings", lambda: worker.settings(config))
    yield from findings_of("plugins", lambda: worker.plugins(config))
    yield from findings_of("Spark", lambda: worker.spark_cluster(config))
    yield from findings_of("certificates", lambda: worker.certificates(config, dt.datetime.now(dt.UTC)))
    yield from findings_of("Kafka", lambda: worker.kafka(config))


def _running(url: str, urls: Sequence[str], profile: str | None) -> Iterator[Finding]:
    """A running worker: its health, and its clock compared with this machine's."""
    from heeler.cli.client.responses import as_list, as_object, as_text
    from heeler.cli.client.rest_client import RestError
    from heeler.doctor.findings import Finding, Verdict

    client = client_of(urls, profile, 0)
    client.urls = [url]
    version = as_text(as_object(client.call("GET", "/"), "a worker's version").get("version"))
    try:
        health = as_object(client.call("GET", "/health"), _HEALTH)
        degraded = health.get("degraded")
        if degraded:
            tasks = "; ".join(map(as_text, as_list(degraded, _HEALTH)))
            yield Finding("workers", Verdict.WARNING,
                          f"{url}: tasks with problems: {tasks}. See heeler connectors status")
        else:
            yield Finding("workers", Verdict.OK, f"{url}: {version}, {as_text(health.get('status'))}")
    except RestError as error:
        if error.status == 404:  # workers before Kafka 3.9 do not have this path
            yield Finding("workers", Verdict.OK, f"{url}: {version}")
        else:
            yield Finding("workers", Verdict.ERROR, f"{url}: {error}")
    ahead = client.clock()
    if ahead is not None:
        if abs(ahead) > _SKEW_S:
            yield Finding("clocks", Verdict.ERROR, f"{url}: {abs(ahead):.0f} s {'ahead of' if ahead > 0 else 'behind'} "
                          "this machine's. Synchronize both clocks with NTP; timestamps, sessions and certificates "
                          "depend on them")
        else:
            yield Finding("clocks", Verdict.OK, f"{url}: in sync with this machine's")
