"""`heeler broker`: a single-node Kafka broker."""

from __future__ import annotations

import threading
from pathlib import Path

import click

from heeler.cli.console.terminal import ProgressLines, errors_without_trace, interrupting_signals
from heeler.errors import SetupError

_DEFAULT_PORT = 9092


@click.command()
@click.option("--port", type=click.IntRange(0, 65535), default=_DEFAULT_PORT, show_default=True,
              help="Port to listen on; 0 picks a free port.")
@click.option("--data-dir", type=click.Path(file_okay=False, path_type=Path),
              help="Folder to keep the data in; without it, the data is removed when the broker stops.")
def broker(port: int, data_dir: Path | None) -> None:
    """Run a real single-node Kafka broker until Ctrl-C."""
    from rich.console import Console

    from heeler.embedded_kafka.broker import EmbeddedBroker
    from heeler.embedded_kafka.jars import KAFKA_VERSION

    stopped = threading.Event()
    progress = ProgressLines(Console(stderr=True))
    with errors_without_trace(), interrupting_signals():
        embedded = EmbeddedBroker(port, data_dir, progress=progress)
        try:
            with progress:
                embedded.start()
            kept = "" if data_dir else " (removed at the end)"
            click.echo(f"Kafka {KAFKA_VERSION} on {embedded.bootstrap_servers}, data in {embedded.data_dir}{kept}. "
                       "Ctrl-C stops it.")
            while embedded.running:
                stopped.wait(0.2)
            raise SetupError(f"Kafka stopped unexpectedly. Its last output:\n{embedded.last_output or '(none)'}")
        except KeyboardInterrupt:
            click.echo("Stopping Kafka.")
        finally:
            embedded.close()
