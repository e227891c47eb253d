"""A worker as a child process. A real process, which ends at once."""

from __future__ import annotations

import pytest

from heeler.cli.support.worker_process import WorkerProcess

pytestmark = pytest.mark.integration  # a process of its own


def test_variables_of_another_worker_are_not_its_settings(tmp_path, monkeypatch):
    monkeypatch.setenv("CONNECT_BOOTSTRAP_SERVERS", "production:9092")
    with WorkerProcess(tmp_path, {"group.id": "demo"}) as worker:
        assert worker.wait(60) == 2
        assert 'Missing required configuration "bootstrap.servers"' in worker.tail()
