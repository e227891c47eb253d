"""Signals that stop a worker, from its first moment on."""

from __future__ import annotations

import os
import signal

import pytest

from heeler.cli.support.worker_process import WorkerProcess
from heeler.worker.signals import stop_on_signals
from tests.rigs.support import wait_until
from tests.rigs.workers import worker_settings

PROVIDER = """
import time
from spark_tasks.plugins.config_providers import ConfigProvider

class Vault(ConfigProvider):
    def configure(self, settings):
        print("vault: waiting", flush=True)
        try:
            time.sleep(60)
        except BaseException:
            if settings["mistake"] != "catches all":
                raise

    def get(self, path, keys=None):
        raise NotImplementedError
"""


@pytest.mark.parametrize(("handler", "reported"), [(signal.SIG_DFL, ["received SIGHUP"]), (signal.SIG_IGN, [])])
def test_the_end_of_the_terminal_stops_a_worker_unless_nohup_started_it(handler, reported):
    names = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
    before = [signal.getsignal(name) for name in names]
    reasons = []
    try:
        signal.signal(signal.SIGHUP, handler)
        stop_on_signals(reasons.append)
        os.kill(os.getpid(), signal.SIGHUP)
        assert reasons == reported
        os.kill(os.getpid(), signal.SIGTERM)
        assert reasons == [*reported, "received SIGTERM"]
    finally:
        for name, former in zip(names, before, strict=True):
            signal.signal(name, former)


@pytest.mark.integration  # a process of its own
@pytest.mark.parametrize("mistake", ["none", "catches all"])
def test_a_worker_that_reads_its_settings_stops_at_once(tmp_path, mistake):
    """As the first process of a container, it would get no signal without a handler, and would be killed later."""
    (tmp_path / "vault.py").write_text(PROVIDER)
    settings = worker_settings("127.0.0.1:9", "starting", plugin_path=str(tmp_path), config_providers="v")
    settings |= {"config.providers.v.class": "vault.Vault", "config.providers.v.param.mistake": mistake}
    with WorkerProcess(tmp_path, settings) as worker:
        wait_until(lambda: "vault: waiting" in worker.tail(), 60, "the provider")
        worker.signal("TERM")
        assert worker.wait(30) == 0, worker.tail()
        assert "Traceback" not in worker.tail()
