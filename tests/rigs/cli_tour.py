"""The `heeler` command used with a cluster, whichever worker runs it: the same steps for Java's and heeler's."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result

from heeler.cli.main import main
from tests.rigs.support import wait_until
from tests.rigs.workers import STRING, Kafka

SOURCE, SINK = (f"org.apache.kafka.connect.file.FileStream{kind}Connector" for kind in ("Source", "Sink"))


class Terminal:
    """Runs commands for the worker at `url`."""

    def __init__(self, url: str) -> None:
        self.url = url

    def run(self, *words: object, code: int = 0, **more: Any) -> Result:
        """Run a command that ends with this exit code."""
        # Nothing listens at the first address: the second one is used.
        url = ["--url", f"http://127.0.0.1:1,{self.url}"]
        done = CliRunner().invoke(main, [*map(str, words), *url], catch_exceptions=False, **more)
        assert done.exit_code == code, f"{words}: {done.exit_code}, {done.output}"
        return done

    def data(self, *words: object, code: int = 0) -> Any:
        """The output of a command in the format for programs."""
        return json.loads(self.run(*words, "-o", "json", code=code).stdout)

    def until(self, connector: str, *states: str) -> None:
        """Wait until the connector and its tasks are in these states."""

        def so() -> bool:
            said = self.run("connectors", "list").stdout
            if connector not in said or "(no status yet)" in said:
                return False
            said = self.data("connectors", "status", connector)[connector]
            return [said["connector"]["state"], *(task["state"] for task in said["tasks"])] == list(states)

        wait_until(so, 60, f"{connector} to be {states}")


def tour(url: str, kafka: Kafka, folder: Path, name: str) -> None:
    """Create connectors from files, show, change, move and delete them. `name`: of a topic; all names begin with it."""
    terminal = Terminal(url)
    files, out = folder / "connectors", folder / "out.txt"
    files.mkdir()
    (folder / "in.txt").write_text("a\nb\nc\n")
    source, sink = f"{name}-in", f"{name}-out"
    (files / "in.yaml").write_text(f"name: {source}\nconnector.class: {SOURCE}\ntasks.max: 1\ntopic: {name}\n"
                                   f"file: {folder / 'in.txt'}\nproducer.override.ssl.key.password: hunter2hunter2\n")
    (files / "out.json").write_text(json.dumps({"name": sink, "config": {
        "connector.class": SINK, "tasks.max": 1, "topics": name, "file": str(out)}}))
    kafka.create(name, 2)
    _apply(terminal, files, source, sink)
    for connector in (source, sink):
        terminal.until(connector, "RUNNING", "RUNNING")
    wait_until(lambda: out.exists() and sorted(out.read_text().split()) == ["a", "b", "c"], 60, "the lines")
    _look(terminal, source, sink, name)
    _change(terminal, files, source, sink)
    _offsets(terminal, kafka, sink, name)
    _refusals(terminal, files, source)
    terminal.run("connectors", "delete", source, "--yes")
    wait_until(lambda: source not in terminal.data("connectors", "list"), 30, "the end")


def _apply(terminal: Terminal, files: Path, source: str, sink: str) -> None:
    done = terminal.run("connectors", "apply", files, "--dry-run", "--exit-code", code=1).stdout
    assert f"+ {source}" in done
    assert "ssl.key.password=[hidden]" in done
    assert "hunter2" not in done
    assert "2 to create" in done
    assert terminal.data("connectors", "list").keys() & {source, sink} == set()
    refused = terminal.run("connectors", "apply", "-f", files, code=2)
    assert "--yes" in refused.output  # nobody can be asked
    assert "created" in terminal.run("connectors", "apply", "-f", files, "--yes").stdout
    assert terminal.run("connectors", "apply", "-f", files).stdout.endswith("2 unchanged.\n")


def _look(terminal: Terminal, source: str, sink: str, topic: str) -> None:
    listed = terminal.data("connectors", "list")
    assert (listed[source]["status"]["type"], listed[sink]["status"]["type"]) == ("source", "sink")
    [line] = [line for line in terminal.run("connectors", "list").stdout.splitlines() if line.startswith(source)]
    assert line.split()[1:4] == ["source", "RUNNING", "1/1"]
    shown = terminal.run("connectors", "show", source, "-o", "yaml").stdout
    assert "producer.override.ssl.key.password: '[hidden]'" in shown
    assert "hunter2hunter2" in terminal.run("connectors", "show", source, "--show-secrets").stdout
    assert "hunter2" not in terminal.run("connectors", "tasks", source).stdout
    assert terminal.data("connectors", "tasks", sink)[0]["state"] == "RUNNING"
    wait_until(lambda: terminal.data("connectors", "topics", sink) == [topic], 30, "the topic to be known")
    assert SINK in {p["class"] for p in terminal.data("plugins", "list")}
    assert STRING in {p["class"] for p in terminal.data("plugins", "list", "--all")}
    described = terminal.run("plugins", "describe", SINK).stdout
    assert [line.split()[1] for line in described.splitlines() if line.startswith("file ")] == ["STRING"]
    assert terminal.data("loggers", "set", "org.apache.kafka.connect.tour", "debug") != []
    assert "org.apache.kafka.connect.tour" in terminal.run("loggers", "list").stdout
    terminal.run("loggers", "set", "org.apache.kafka.connect.tour", "info", "--cluster")


def _change(terminal: Terminal, files: Path, source: str, sink: str) -> None:
    file = files / "out.json"
    before = file.read_text()
    file.write_text(before.replace('"tasks.max": 1', '"tasks.max": 2'))
    (files / "in.yaml").rename(files / "in.old")
    dry = terminal.data("connectors", "apply", files, "--dry-run", "--prune")
    wanted = [change for change in dry["changes"] if change["name"] in (source, sink)]
    assert [(c["name"], c["action"]) for c in wanted] == [(sink, "change"), (source, "delete")]
    assert wanted[0]["keys"] == [{"key": "tasks.max", "before": "1", "after": "2"}]
    assert terminal.run("connectors", "apply", files, "-y").stdout.endswith(f"{sink}: changed\n")
    terminal.until(sink, "RUNNING", "RUNNING", "RUNNING")
    (files / "in.old").rename(files / "in.yaml")
    terminal.run("connectors", "pause", source, sink)
    terminal.until(source, "PAUSED", "PAUSED")
    terminal.run("connectors", "resume", source, sink)
    terminal.until(sink, "RUNNING", "RUNNING", "RUNNING")
    terminal.run("connectors", "restart", sink, "--include-tasks")
    terminal.until(sink, "RUNNING", "RUNNING", "RUNNING")
    terminal.run("connectors", "restart", sink, "--task", 1)
    terminal.until(sink, "RUNNING", "RUNNING", "RUNNING")


def _offsets(terminal: Terminal, kafka: Kafka, sink: str, topic: str) -> None:
    def at(*offsets: int) -> bool:
        found = terminal.data("offsets", "show", sink)["offsets"]
        return sorted(o["offset"]["kafka_offset"] for o in found) == sorted(offsets)

    wait_until(lambda: sum(o["offset"]["kafka_offset"] for o in terminal.data("offsets", "show", sink)["offsets"]) == 3,
               60, "the sink's offsets")
    assert "STOPPED" in terminal.run("offsets", "set", sink, f"{topic}:0=99", "-y", code=5).output
    terminal.run("connectors", "stop", sink)
    terminal.until(sink, "STOPPED")
    dry = terminal.run("offsets", "set", sink, f"{topic}:0=0", f"{topic}:1=0", "--dry-run").stdout
    assert dry.startswith("PARTITION")
    servers = ("--bootstrap-servers", kafka.servers)
    between = dt.datetime.now(dt.UTC).isoformat(timespec="milliseconds")
    kafka.send(topic, ["later"], partition=0)
    for to, further in (("end", 1), (between, 0)):  # the sink is behind the three lines, before the later one
        moved = terminal.data("offsets", "reset", sink, "--to", to, *servers, "--dry-run")["changes"]
        assert sum(c["then"]["kafka_offset"] - (c["now"] or {"kafka_offset": 0})["kafka_offset"]
                   for c in moved) == further
    wait_until(lambda: terminal.run("offsets", "reset", sink, "--to", "beginning", *servers, "-y").exit_code == 0, 30)
    assert at(0, 0)
    terminal.run("offsets", "reset", sink, "--to", "2199-01-01T00:00:00Z", *servers, "-y")  # in the future: the end
    assert sum(o["offset"]["kafka_offset"] for o in terminal.data("offsets", "show", sink)["offsets"]) == 4
    terminal.run("offsets", "reset", sink, "--to", between, *servers, "-y")
    assert sum(o["offset"]["kafka_offset"] for o in terminal.data("offsets", "show", sink)["offsets"]) == 3
    shown = terminal.run("offsets", "reset", sink, "-y").stdout
    assert shown.count(" -\n") == 2, shown
    assert terminal.data("offsets", "show", sink)["offsets"] == []
    terminal.run("connectors", "delete", sink, "-y")


def _refusals(terminal: Terminal, files: Path, source: str) -> None:
    assert "not found" in terminal.run("connectors", "show", "nobody", code=4).output
    done = terminal.run("connectors", "pause", "nobody", source, code=4)  # an error of one does not affect the other
    assert f"{source}: will pause" in done.stdout
    wrong = files / "wrong.properties"
    wrong.write_text(f"name=wrong\nconnector.class={SOURCE}\ntasks.max=many\n")
    said = terminal.run("validate", wrong, code=1).stdout
    assert "tasks.max" in said
    assert "many" in said
    assert "already exists" in terminal.run("connectors", "create", files / "in.yaml", code=5).output
    done = terminal.run("connectors", "apply", wrong, "--dry-run", code=1)
    assert "tasks.max" in done.stderr
    assert terminal.run("connectors", "apply", wrong, "--yes", code=5).stdout.startswith("+ wrong")
