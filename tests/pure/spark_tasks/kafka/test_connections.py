"""What runs on the IO thread and nobody waits for."""

from __future__ import annotations

import logging
import threading

import pytest

from spark_tasks.kafka.connections import Connections
from tests.rigs.support import wait_until


@pytest.fixture
def connections():
    made = Connections({"bootstrap_servers": ["127.0.0.1:1"]})
    yield made
    made.close()


async def coroutine():
    raise TypeError("a defect")


def function():
    raise TypeError("a defect")


@pytest.mark.parametrize("started", [function, coroutine])
def test_a_defect_goes_to_the_log_and_the_thread_goes_on(connections, caplog, started):
    connections.start(started)
    wait_until(lambda: "TypeError: a defect" in caplog.text)
    done = threading.Event()
    connections.start(done.set)
    assert done.wait(10)


def test_what_is_cut_off_by_the_end_is_no_defect(connections, caplog):
    begun = threading.Event()

    async def long():
        begun.set()
        await connections.sleep(60_000)

    with caplog.at_level(logging.INFO, "spark_tasks"):
        connections.start(long)
        assert begun.wait(10)
        connections.close()
    assert [record for record in caplog.records if record.name.startswith("spark_tasks")] == []
