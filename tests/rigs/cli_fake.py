"""The `heeler` command with a fake in place of a worker (see fake_connect.py), and what the fake responds."""

from __future__ import annotations

from typing import Any

from click.testing import CliRunner, Result

from heeler.cli.main import main
from tests.rigs.fake_connect import FakeConnect

ESCAPE = "\x1b]0;owned\x07\x1b[2J"
STATUS: dict[str, Any] = {
    "name": "c", "type": "sink", "connector": {"state": "RUNNING", "worker_id": "w:1"},
    "tasks": [{"id": 0, "state": "FAILED", "worker_id": "w:1", "trace": "Boom\n\tat x"}]}
STALL = "stalled since 2026-11-22T18:00:00Z: a batch has been running for 300 s"
STALLS: dict[str, Any] = {**STATUS, "tasks": [{"id": 0, "state": "RUNNING", "worker_id": "w:1"}, {
    "id": 1, "state": "RUNNING", "worker_id": "w:1",
    "stalled": {"since": "2026-11-22T18:00:00Z", "what": "a batch has been running for 300 s\nin read"}}]}
INFO: dict[str, Any] = {
    "name": "c", "config": {"name": "c", "connector.class": "X", "a": "1"}, "tasks": [], "type": "sink"}


def run(fake: FakeConnect, *words: str, code: int = 0, url: str | None = None) -> Result:
    """Run a command that ends with this exit code."""
    done = CliRunner(env={"HEELER_PROFILES": "/nowhere"}).invoke(
        main, [*words, "--url", url or fake.url, "--timeout", "0"], catch_exceptions=False)
    assert done.exit_code == code, (done.exit_code, done.output)
    return done


def metrics(written: int, lag: int) -> bytes:
    """Metrics of the task of `STATUS`, among lines of other shapes."""
    return (f"# HELP heeler_task_records_total x\n"
            f'heeler_task_records_total{{connector="c",task="0",stage="read",worker="w"}} 999\n'
            f'heeler_task_records_total{{connector="c",task="0",stage="write",worker="w"}} {written}\n'
            f'heeler_sink_lag_records{{connector="c",task="0",topic="t",partition="0"}} {lag}\n'
            f'heeler_sink_lag_records{{connector="c",task="0",topic="t",partition="1"}} 1\n'
            'heeler_task_errors_total{connector="c",task="0",stage="write"} 3\n'
            'heeler_task_errors_total{connector="c"} 3\nheeler_task_errors_total{connector="c",task="x"} 3\n'
            'heeler_sink_lag_records{connector="c",task="0"} NaN\nnonsense\n').encode()
