"""Fixtures of the tests of Java plugin hosts."""

from __future__ import annotations

import pytest

from heeler.java_host import host
from tests.rigs.host_processes import Process


@pytest.fixture
def made(monkeypatch):
    """The processes that are started, simulated."""
    monkeypatch.setattr(host, "HostProcess", Process)
    monkeypatch.setattr(host, "HostLiveness", lambda *_: None)
    monkeypatch.setattr(host, "LINGER_S", 0.0)
    Process.made.clear()
    yield Process.made
    for process in Process.made:
        process.close()
