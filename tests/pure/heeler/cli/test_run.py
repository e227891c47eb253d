"""`heeler run`: one connector without Kafka, whose offsets are in a file."""

from __future__ import annotations

import errno
import json
import subprocess
import sys
import threading

import click
import pytest
from click.testing import CliRunner

from heeler.cli.main import main
from heeler.cli.new import write_package
from tests.rigs.support import wait_until

LINES = "org.apache.kafka.connect.file.FileStreamSourceConnector"
JSON = "org.apache.kafka.connect.json.JsonConverter"
DIRECTORY = "org.apache.kafka.common.config.provider.DirectoryConfigProvider"


def run(file, *words, code=0):
    done = CliRunner().invoke(main, ["run", str(file), "--once", *map(str, words)], catch_exceptions=False)
    assert done.exit_code == code, done.output
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.fixture
def worker(tmp_path):
    """A worker's file, with the packages in this folder."""
    file = tmp_path / "worker.properties"
    topics = "".join(f"{kind}.storage.topic={kind}\n" for kind in ("config", "offset", "status"))
    file.write_text(f"bootstrap.servers=127.0.0.1:1\ngroup.id=g\nplugin.path={tmp_path}\nkey.converter={JSON}\n"
                    f"value.converter={JSON}\nvalue.converter.schemas.enable=false\n{topics}")
    return file


def test_a_source_continues_where_it_stopped(tmp_path):
    text, file = tmp_path / "in.txt", tmp_path / "in.yaml"
    text.write_text("a\nb\n")
    file.write_text(f"connector.class: {LINES}\ntopic: t\nfile: {text}\n"
                    "value.converter: org.apache.kafka.connect.storage.StringConverter\n")
    assert [(record["topic"], record["value"]) for record in run(file)] == [("t", "a"), ("t", "b")]
    assert run(file) == []
    with text.open("a") as more:
        more.write("c\n")
    assert [record["value"] for record in run(file)] == ["c"]
    kept = json.loads((tmp_path / "in.yaml.offsets.json").read_text())
    assert kept == {"offsets": [{"partition": {"filename": str(text)}, "offset": {"position": 6}}]}
    assert [record["value"] for record in run(file, "--offsets", tmp_path / "others")] == ["a", "b", "c"]
    for wrong in ("{", "[]", '{"offsets": [1]}'):
        (tmp_path / "others").write_text(wrong)
        run(file, "--offsets", tmp_path / "others", code=2)


def test_the_end_of_the_program_that_reads_the_output_is_not_an_error_of_the_plugin(tmp_path, monkeypatch):
    text, file = tmp_path / "in.txt", tmp_path / "in.yaml"
    text.write_text("a\n")
    file.write_text(f"connector.class: {LINES}\ntopic: t\nfile: {text}\n")
    echo = click.echo

    def to_a_closed_pipe(*words, err=False, **more):
        if not err:
            raise BrokenPipeError(errno.EPIPE, "Broken pipe")
        echo(*words, err=err, **more)

    monkeypatch.setattr(click, "echo", to_a_closed_pipe)
    done = CliRunner().invoke(main, ["run", str(file), "--once"])
    assert (done.exit_code, done.stderr) == (1, "")
    assert not (tmp_path / "in.yaml.offsets.json").exists(), "it continues with what was not printed"


def test_a_sink_processes_a_sources_output_once(tmp_path, worker):
    source, sink = write_package(tmp_path, "tallies", "source"), write_package(tmp_path, "archive", "sink")
    printed = run(source / "connector.yaml", "--worker-config", worker)
    assert [json.loads(record["value"])["number"] for record in printed] == list(range(10))
    records, config = tmp_path / "records.jsonl", sink / "connector.yaml"
    config.write_text(config.read_text().replace("/tmp/archive", str(tmp_path / "out")))  # noqa: S108 - the template's
    records.write_text("".join(json.dumps(record) + "\n" for record in printed))

    def written():
        run(config, "--records", records, "--worker-config", worker)
        return sorted(json.loads(line)["number"] for file in (tmp_path / "out").glob("*.jsonl")
                      for line in file.read_text().splitlines())

    assert written() == list(range(10))
    assert written() == list(range(10))
    with records.open("a") as more:
        more.write(json.dumps({"value": {"number": 10, "text": "x"}}) + "\n" + '{"value": {"num')  # half of a line
    assert written() == list(range(11))
    with records.open("a") as more:
        more.write('ber": 11, "text": "x"}}')  # without a line end
    assert written() == list(range(12))
    with records.open("a") as more:
        more.write('\n{"value"\n')
    run(config, "--records", records, "--worker-config", worker, code=2)
    run(config, "--worker-config", worker, code=2)


@pytest.mark.parametrize(("settings", "values"), [
    ("", ['{"schema":']), (f"value.converter={JSON}\nvalue.converter.schemas.enable=false\n", ['{"number":0,']),
    (f"config.providers=files\nconfig.providers.files.class={DIRECTORY}\n", ['{"schema":'])])
def test_a_worker_file_may_have_only_plugins_converters_and_providers(tmp_path, settings, values):
    package, file = write_package(tmp_path, "tallies", "source"), tmp_path / "worker.properties"
    file.write_text(f"plugin.path={tmp_path}\n{settings}")
    if "providers" in settings:
        (tmp_path / "count").write_text("1")
        config = package / "connector.yaml"
        config.write_text(config.read_text().replace("count: 10", f"count: ${{files:{tmp_path}:count}}"))
    printed = [record["value"] for record in run(package / "connector.yaml", "--worker-config", file)]
    assert [value[:len(values[0])] for value in printed[:1]] == values
    assert len(printed) == (1 if "providers" in settings else 10)
    tried = CliRunner().invoke(main, ["try", str(package / "connector.yaml"), "--worker-config", str(file)])
    assert tried.exit_code == 0, tried.output
    file.write_text(f"{file.read_text()}session.timeout.ms=soon\n")
    run(package / "connector.yaml", "--worker-config", file, code=2)


@pytest.mark.integration  # a process of its own
def test_heeler_run_restarts_when_the_code_changes(tmp_path, worker):
    package = write_package(tmp_path, "tallies", "source")
    command = [sys.executable, "-m", "heeler", "run", str(package / "connector.yaml"), "--worker-config", str(worker)]
    lines, reported = [], tmp_path / "told"
    with reported.open("w") as errors, subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors,
                                                    text=True) as process:
        try:
            reading = threading.Thread(target=lambda: lines.extend(iter(process.stdout.readline, "")))
            reading.start()
            wait_until(lambda: len(lines) == 10, 120, "the rows")
            code = package / "tallies" / "connector.py"
            code.write_text(code.read_text().replace('"row {number}"', '"line {number}"').replace(
                "int(options", "2 + int(options"))
            wait_until(lambda: len(lines) == 12, 120, "two more rows, of the new code")
            good = code.read_text()
            code.write_text(f"{good}\ndef half_of_it(")
            wait_until(lambda: "waiting for the next change" in reported.read_text(), 120, "a mistake does not end it")
            assert process.poll() is None
            code.write_text(good.replace("2 + int(options", "3 + int(options"))
            wait_until(lambda: len(lines) == 13, 120, "a row of the mended code")
        finally:
            process.terminate()
            process.wait(30)
            reading.join(30)
    assert [json.loads(json.loads(line)["value"])["text"] for line in lines[9:]] == [
        "row 9", "line 10", "line 11", "line 12"]
    assert "was never closed" in reported.read_text()
