"""A fake in place of a worker, and commands on a terminal; tests/rigs/cli_tour.py uses real workers."""

from __future__ import annotations

import pytest

from tests.rigs.fake_connect import fake_connect
from tests.rigs.terminal import OnATerminal


@pytest.fixture
def fake():
    with fake_connect() as running:
        yield running


@pytest.fixture
def on_a_terminal(fake):
    """Starts commands for the fake; those that a failed test leaves are killed."""
    started = []

    def start(*words, **more):
        started.append(OnATerminal(*words, "--url", fake.url, **more))
        return started[-1]

    yield start
    for one in started:
        one.process.kill()
        one.process.wait()
