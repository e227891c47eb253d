"""`heeler run`: one connector in the foreground, without a cluster, for developing it."""

from __future__ import annotations

import json
import logging
import os
import sys
import time
import traceback
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TextIO

import click

from heeler.cli.client.session import FILES
from heeler.cli.console.safe_text import safe_json
from heeler.cli.console.terminal import errors_without_trace, interrupting_signals, plugins_print_apart
from heeler.cli.support.code_watch import ChangedError, CodeWatch
from heeler.cli.try_ import connector_of
from heeler.errors import SetupError
from spark_tasks.errors import ConnectError, PluginExitError, plugin_code

if TYPE_CHECKING:
    from spark_tasks.plugins.api import SinkConnector, SourceConnector

_IDLE_S: Final = 0.2
_BATCH: Final = 1000  # records for a sink at a time
_CODE: Final = "HEELER_RUN_CODE"
"""The environment variable with the folder of the connector's code after a reload: the code may fail to import."""


class _ReaderGoneError(BrokenPipeError):
    """The program that reads the output has ended, such as head; click ends the command without a word."""


@click.command()
@click.argument("file", type=FILES)
@click.option("--records", type=FILES, metavar="FILE", help="Records for a sink, followed as the file grows: "
              "lines of JSON with value and, optionally, key, topic, headers.")
@click.option("--offsets", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE",
              help="Where offsets are saved.  [default: FILE.offsets.json]")
@click.option("--once", is_flag=True, help="Exit when everything has been read.")
@click.option("--reload/--no-reload", default=True, show_default=True, help="Restart from the saved offsets when "
              "the connector's code or FILE changes.")
@click.option("--worker-config", type=FILES, metavar="FILE",
              help="Use the plugins, converters and config providers of this worker file.")
def run(
    file: Path, records: Path | None, offsets: Path | None, once: bool, reload: bool, worker_config: Path | None
) -> None:
    """Run the connector of FILE here, without Kafka, until Ctrl-C. A source prints the records that it would send, one
    line of JSON each; a sink writes the records of a file. The connector's own output goes to standard error.
    """
    kept = offsets or file.with_name(f"{file.name}.offsets.json")
    own = [file, *([worker_config] if worker_config else [])] if reload else []
    watch, code = CodeWatch(own), os.environ.get(_CODE)
    with errors_without_trace(), interrupting_signals(), plugins_print_apart() as out:
        logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s")
        if code is not None:
            watch.start(Path(code))
        try:
            try:
                with plugin_code(interruptible=True):
                    _run(file, records, kept, worker_config, out, once=once, watch=watch)
            except (ChangedError, _ReaderGoneError):
                raise
            except Exception as error:  # noqa: BLE001 - plugin code
                _tell(error)
                if code is None or once or not reload:
                    sys.exit(getattr(error, "exit_code", 2) if _is_message(error) else 1)
                click.echo("heeler: waiting for the next change", err=True)
                while True:
                    watch.check()
                    time.sleep(_IDLE_S)
        except KeyboardInterrupt:
            sys.exit(0)
        except ChangedError as changed:
            click.echo(f"heeler: {changed}: restarting", err=True)
            out.flush()
            os.execve(sys.executable, [sys.executable, "-m", "heeler", *sys.argv[1:]],  # noqa: S606 - this program again
                      {**os.environ, **({_CODE: str(changed.folder)} if changed.folder else {})})


def _tell(error: Exception) -> None:
    """Prints a ConnectError as one message, and any other error of the plugin with its stack trace, for the plugin's
    author. The stream masks both.
    """
    if _is_message(error):
        click.echo(f"heeler: {error}", err=True)
    else:
        click.echo("".join(traceback.format_exception(error)), err=True, nl=False)


def _is_message(error: Exception) -> bool:
    return isinstance(error, ConnectError) and not isinstance(error, PluginExitError)


def _run(
    file: Path, records: Path | None, kept: Path, worker_config: Path | None, out: TextIO, *, once: bool,
    watch: CodeWatch,
) -> None:
    from spark_tasks.config.masking import hide_passwords
    from spark_tasks.plugins.api import SinkConnector, SourceConnector

    plugins, worker, config = connector_of(file, worker_config)
    connector = plugins.connector_of(config).cls
    hide_passwords(config.get("name", ""), config, connector)
    watch.start(_code_of(connector))
    if issubclass(connector, SourceConnector):
        _run_source(connector, worker, config, kept, out, once=once, watch=watch)
    elif issubclass(connector, SinkConnector):
        if records is None:
            raise SetupError("A sink needs records: specify --records FILE")
        _run_sink(connector, worker, config, kept, records, once=once, watch=watch)


def _run_source(
    connector: type[SourceConnector], worker: Mapping[str, str], config: Mapping[str, str], kept: Path, out: TextIO, *,
    once: bool, watch: CodeWatch,
) -> None:
    from spark_tasks.foreground import ForegroundSource

    before = [(item["partition"], item["offset"]) for item in _kept(kept)]
    source = ForegroundSource(connector, worker, config, before)

    def emit(record: Mapping[str, Any]) -> None:
        try:
            click.echo(safe_json(json.dumps(record, ensure_ascii=False)).encode(), file=out)
        except BrokenPipeError as error:
            raise _ReaderGoneError(*error.args) from error

    def save(offsets: Iterable[tuple[Any, Any]]) -> None:
        _keep(kept, [{"partition": partition, "offset": offset} for partition, offset in offsets])

    try:
        while True:
            count = source.run_once(emit, save)
            watch.check()
            if not count:
                if once:
                    return
                time.sleep(_IDLE_S)
    finally:
        source.close()


def _run_sink(
    connector: type[SinkConnector], worker: Mapping[str, str], config: Mapping[str, str], kept: Path, records: Path, *,
    once: bool, watch: CodeWatch,
) -> None:
    """Runs a sink. Its offset is the position in the file."""
    from spark_tasks.foreground import ForegroundSink
    from spark_tasks.trial import raw_records, topic_of_records

    topic = topic_of_records(config)
    partition = {"file": str(records.resolve())}
    at = next((item["offset"] for item in _kept(kept) if item["partition"] == partition), {"line": 0, "byte": 0})
    sink = ForegroundSink(connector, worker, config)
    with records.open("rb") as file:
        file.seek(int(at["byte"]))
        line, byte = int(at["line"]), int(at["byte"])
        while True:
            lines = _whole_lines(file, byte)
            if lines:
                read = _parsed(lines, records, line)
                numbered = [{"offset": line + n, **one} if isinstance(one, dict) else one for n, one in enumerate(read)]
                sink.write(list(raw_records(numbered, topic)))
                line, byte = line + len(read), byte + sum(map(len, lines))
                _keep(kept, [{"partition": partition, "offset": {"line": line, "byte": byte}}])
            watch.check()
            if not lines:
                if once:
                    return
                time.sleep(_IDLE_S)


def _whole_lines(file: Any, byte: int) -> list[bytes]:
    """The next complete lines; the last line of the file may still be incomplete, or a record without a line end."""
    file.seek(byte)
    lines = [file.readline() for _ in range(_BATCH)]
    return [line for line in lines if line.endswith(b"\n") or _is_record(line)]


def _is_record(line: bytes) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except (ValueError, RecursionError):
        return False


def _parsed(lines: Iterable[bytes], file: Path, first: int) -> list[Any]:
    try:
        return [json.loads(line) for line in lines if line.strip()]
    except (ValueError, RecursionError) as error:
        raise SetupError(f"{file} has a line after record {first} that is not JSON: {error}") from error


def _kept(file: Path) -> list[dict[str, Any]]:
    if not file.exists():
        return []
    try:
        items = json.loads(file.read_text(encoding="utf-8-sig"))["offsets"]
        return [{"partition": item["partition"], "offset": item["offset"]} for item in items]
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise SetupError(f"{file} does not contain offsets. Remove it to start from the beginning: {error!r}"
                         ) from error


def _keep(file: Path, offsets: list[dict[str, Any]]) -> None:
    """Saves the offsets atomically: a reader, or a start after a crash, never sees half of them."""
    new = file.with_name(f"{file.name}.new")
    try:
        new.write_text(json.dumps({"offsets": offsets}, indent=2))
        new.replace(file)
    except OSError as error:
        raise SetupError(f"Cannot save the offsets in {file}: {error.strerror}. Choose another file with --offsets"
                         ) from error


def _code_of(connector: type[Any]) -> Path | None:
    """The folder of the connector's code."""
    module = sys.modules.get(connector.__module__)
    file = getattr(module, "__file__", None)
    return Path(file).parent if file else None
