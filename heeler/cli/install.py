"""`heeler plugins install`: Java plugins from Maven Central."""

from __future__ import annotations

from pathlib import Path

import click

from heeler.cli.console.terminal import ProgressLines, errors_without_trace


@click.command()
@click.argument("what", metavar="GROUP:ARTIFACT:VERSION")
@click.option("--plugin-path", "folder", required=True, type=click.Path(file_okay=False, path_type=Path),
              help="A folder of the worker's plugin.path.")
@click.option("--with", "more", multiple=True, metavar="GROUP:ARTIFACT:VERSION",
              help="A dependency that the plugin does not declare, such as a JDBC driver; may be repeated.")
def install(what: str, folder: Path, more: tuple[str, ...]) -> None:
    """Install a Java plugin and the jars that it needs into a folder of plugin.path.

    Fetches them from Maven Central, or from the mirror that the Ivy settings file in HEELER_IVY_SETTINGS names.
    """
    from rich.console import Console

    from heeler.java_host.install import Coordinates
    from heeler.java_host.install import install as put

    with errors_without_trace():
        wanted, others = Coordinates.parse(what), [Coordinates.parse(coordinates) for coordinates in more]
        progress = ProgressLines(Console(stderr=True))
        with progress:
            done = put(wanted, folder, progress, more=others)
        click.echo(f"{done.jars} jars in {done.folder}")
        for name in done.plugins:
            click.echo(f"  {name}")
        click.echo("Workers with this folder in plugin.path load it at their next start.")
