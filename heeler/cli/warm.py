"""`heeler warm`: what makes later starts faster."""

from __future__ import annotations

import click


@click.command()
def warm() -> None:
    """Compile code and record class data that make later starts faster. Run it after an installation, or in an image
    build.
    """
    import heeler.worker.process  # noqa: F401 - to be compiled
    from heeler.cli.support.bytecode import compile_imported
    from spark_tasks.compile_ahead import prepare

    prepare()
    compile_imported()
