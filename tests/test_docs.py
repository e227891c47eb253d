"""The connectors, properties, commands and links in README.md and docs/ work."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from click.testing import CliRunner

from heeler.cli.client.profiles import parse_profiles
from heeler.cli.client.rest_client import RestClient
from heeler.cli.main import main
from heeler.embedded_kafka.guard import GuardedProcess
from heeler.embedded_kafka.ports import free_port
from tests.rigs.connector_states import states_of
from tests.rigs.support import wait_until
from tests.rigs.workers import Kafka

ROOT = Path(__file__).parents[1]
README, GUIDE, CLI = ROOT / "README.md", ROOT / "docs" / "writing-a-connector.md", ROOT / "docs" / "cli.md"
PAGES = [README, ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]
_MARKED = re.compile(r"<!-- test: (\w+) ?(\S*) -->\n```\w+\n(.*?)```", re.DOTALL)
COMPILED_S = 170.0  # on a machine that has never run heeler, numba compiles before the first record


def marked(page: Path) -> dict[str, str]:
    """Blocks that are marked for this test, by their kind."""
    return {kind: text for kind, _, text in _MARKED.findall(page.read_text())}


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", page.read_text(), re.DOTALL)


@pytest.fixture(scope="module")
def worker(broker, tmp_path_factory):
    """A worker of README's properties file, started by README's command; only its addresses are others."""
    folder = tmp_path_factory.mktemp("docs")
    plugins = folder / "connectors"
    plugins.mkdir()
    (plugins / "ticks.py").write_text(marked(README)["connector"])
    clock, _, records = blocks(GUIDE, "python")
    (plugins / "clock.py").write_text(clock)
    (plugins / "records_db.py").write_text(records)
    file = folder / "worker.properties"
    file.write_text(marked(README)["properties"])
    assert blocks(GUIDE, "properties") == [] or "plugin.path=" in blocks(GUIDE, "properties")[0]
    port = free_port()
    overrides = {"bootstrap.servers": broker.bootstrap_servers, "listeners": f"http://127.0.0.1:{port}",
                 "plugin.path": str(plugins)}
    command = [sys.executable, "-m", "heeler", "worker", str(file)]
    for key, value in overrides.items():
        command += ["--override", f"{key}={value}"]
    rest, log = RestClient("127.0.0.1", port), folder / "worker.log"
    process = GuardedProcess(command, log)
    try:
        wait_until(lambda: process.exit_code() is not None or rest.ready(), 60, "the worker")
        assert process.exit_code() is None, log.read_text()
        yield rest
    finally:
        process.close(15)


def run_curl(rest: RestClient, commands: str) -> None:
    """Each command of a block; one that comes before there is an answer (the status of what is new) is repeated."""
    assert shutil.which("curl"), "README shows curl commands: install curl"
    for command in re.findall(r"^curl (?:.*\\\n)*.*$", commands, re.MULTILINE):
        assert "http://localhost:8083/" in command
        here = command.replace("http://localhost:8083", rest.url).replace("curl ", "curl --fail-with-body -sS ", 1)

        def answered(script: str = here) -> bool:
            done = subprocess.run(["sh", "-c", script], capture_output=True, text=True, timeout=60, check=False)
            assert done.returncode == 0, script + done.stdout + done.stderr
            return True

        wait_until(answered, 15, command)


def run_heeler(commands: str, broker) -> str:
    """What a block's only line prints, on the test's broker."""
    (line,) = commands.splitlines()
    words = shlex.split(line, comments=True)
    assert words[0] == "heeler"
    command = [sys.executable, "-m", *words, "--bootstrap-servers", broker.bootstrap_servers]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout


def check_seconds(rest: RestClient, kafka: Kafka, name: str, topic: str, count: int) -> list[dict[str, object]]:
    def there() -> bool:
        assert states_of(rest, name) == ["RUNNING", "RUNNING"], rest.failure(name)
        assert kafka.end(topic) >= count
        return True

    wait_until(there, COMPILED_S, f"{count} records of {name}")
    rows = [json.loads(value)["payload"] for value in kafka.values(topic) if value is not None]
    seconds = [row["second"] for row in rows]
    assert seconds == list(range(seconds[0], seconds[0] + len(seconds)))
    rest.call("DELETE", f"/connectors/{name}")
    return rows


@pytest.mark.integration
@pytest.mark.timeout(400)  # on a machine that has never run heeler; see COMPILED_S
def test_readme_first_connector(worker, broker):
    """The example has ten lines and needs nothing else."""
    code = marked(README)["connector"]
    assert len([line for line in code.splitlines() if line.strip()]) <= 10
    run_curl(worker, marked(README)["curl"])
    kafka = Kafka(broker.bootstrap_servers)
    wait_until(lambda: worker.failure("ticks") or kafka.end("ticks") >= 5, COMPILED_S, "five records")
    shown = [json.loads(line) for line in run_heeler(marked(README)["read"], broker).splitlines()]
    assert [record["offset"] for record in shown] == [0, 1, 2, 3, 4]
    assert all(record["value"]["payload"]["text"].startswith("tick ") for record in shown)
    rows = check_seconds(worker, kafka, "ticks", "ticks", 3)
    assert all(row["text"] == f"tick {row['second']}" for row in rows)


@pytest.mark.integration
def test_guide_connectors(worker, broker, tmp_path):
    create, create_sink = [block for block in blocks(GUIDE, "sh") if "POST" in block]
    run_curl(worker, create)
    file = tmp_path / "records.db"
    run_curl(worker, create_sink.replace("/tmp/records.db", str(file)))  # noqa: S108 - the guide's

    def stored() -> bool:
        assert states_of(worker, "records") == ["RUNNING", "RUNNING"], worker.failure("records")
        with closing(sqlite3.connect(file, timeout=60)) as db:
            if not db.execute("SELECT * FROM sqlite_master").fetchall():
                return False
            return ("seconds-0-0",) in db.execute("SELECT place FROM records").fetchall()

    check_seconds(worker, Kafka(broker.bootstrap_servers), "clock", "seconds", 3)
    wait_until(stored, COMPILED_S, "a record in the file")
    worker.call("DELETE", "/connectors/records")


@pytest.mark.parametrize(("page", "least"), [("evidence.md", 50), ("security.md", 40)])
def test_the_tests_of_each_promise_exist(page, least):
    named = re.findall(r"`([\w/]+\.py)(?:::(\w+))?`", (ROOT / "docs" / page).read_text())
    assert len(named) > least
    for path, name in named:
        code = (ROOT / "tests" / path).read_text()
        assert not name or f"def {name}(" in code, f"{path} has no {name}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_linked_files_exist(page):
    links = re.findall(r"\]\((?!https?:|mailto:|#)([^)#\s]+)", page.read_text())
    assert [link for link in links if not (page.parent / link).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_in_the_documentation_exist(page):
    text = page.read_text()
    said = "\n".join([*re.findall(r"```sh\n(.*?)```", text, re.DOTALL), *re.findall(r"`([^`\n]+)`", text)])
    targets = set(re.findall(r"^([a-z][\w-]*):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert set(re.findall(r"^make ([a-z][\w-]*)", said, re.MULTILINE)) <= targets
    for module in re.findall(r"python -m (tests\.[\w.]+)", said):
        assert (ROOT / f"{module.replace('.', '/')}.py").exists()
    assert set(re.findall(r"^heeler ([a-z][\w-]*)", said, re.MULTILINE)) <= set(main.commands)


def test_make_bench_runs_programs():
    """It once ran pytest over files without a test."""
    (names,) = re.findall(r"^BENCHES := (.+)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    for name in names.split():
        assert "\n    main()\n" in (ROOT / f"tests/benchmarks/bench_{name}.py").read_text()


def console_commands(page: Path) -> list[tuple[str, str]]:
    """Commands and what they print, of all console blocks."""
    steps = [step for block in blocks(page, "console") for step in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]]
    return [(command, said) for command, _, said in (step.partition("\n") for step in steps)]


def words(text: str) -> list[list[str]]:
    """Lines without the space between columns."""
    return [line.split() for line in text.splitlines() if line.strip()]


@pytest.mark.integration
@pytest.mark.timeout(400)  # on a machine that has never run heeler; see COMPILED_S
def test_the_command_line_shows_what_its_page_says(worker, broker, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HEELER_URL", worker.url)
    monkeypatch.setenv("HEELER_PROFILES", str(tmp_path / "none"))
    (tmp_path / "numbers.yaml").write_text(marked(CLI)["file"])
    wait_until(lambda: worker.call("GET", "/connectors") == [], 30, "what other tests have left")
    steps = console_commands(CLI)
    assert len(steps) > 8
    port = urlsplit(worker.url).port
    for command, expected in steps:

        def as_said(command: str = command, expected: str = expected) -> bool:
            done = CliRunner().invoke(main, shlex.split(command)[1:], catch_exceptions=False)
            assert done.exit_code == 0, (command, done.output)
            assert words(re.sub(rf"\S+:{port}", "127.0.0.1:8083", done.stdout)) == words(expected)
            return True

        if command == "heeler connectors stop numbers":
            kafka = Kafka(broker.bootstrap_servers)
            wait_until(lambda: kafka.end("numbers") == 1000, COMPILED_S, "all numbers")  # noqa: B023 - called at once
        # What changes nothing is asked until it is so: a connector takes its time to start.
        reads = re.search(r"heeler \w+ (list|show|status)", command)
        wait_until(as_said, COMPILED_S, command) if reads else as_said()


def test_the_profiles_in_the_documentation_are_valid():
    text = marked(CLI)["profiles"]
    assert parse_profiles(text, None, "profiles.yaml").urls == ("http://localhost:8083",)
    production = parse_profiles(text, "production", "profiles.yaml")
    assert (len(production.urls), production.user, production.key) == (2, "ann", Path("/etc/ssl/me.key"))
