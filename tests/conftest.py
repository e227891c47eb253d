"""Fixtures of all tests. Nothing here is started before a test needs it."""

from __future__ import annotations

import gc
import os
import shutil
import signal
import sys
import tempfile
import uuid
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import settings

from tests.rigs import quick_examples

if TYPE_CHECKING:
    from heeler.embedded_kafka.broker import EmbeddedBroker

# A shell that runs this in the background makes it ignore Ctrl-C, and all child processes inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)

settings.register_profile("thorough", max_examples=1000, deadline=None)  # make histories
# The same examples each time: the thorough profile generates new ones.
settings.register_profile("quick", max_examples=10, deadline=None, derandomize=True)
settings.load_profile("quick")
quick_examples.install()

# Garbage collection takes a tenth of the tests' time: off while modules are imported, and seldom later.
gc.disable()
gc.set_threshold(20_000, 20, 20)


_TEMPORARY = "HEELER_TESTS_TEMPORARY"


def pytest_configure() -> None:
    """One folder for the temporary files of all processes that tests start, because killed ones leave files."""
    if _TEMPORARY in os.environ:  # another process of this run has created it
        return
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", tempfile.gettempdir())  # pytest's own folders stay where they are
    folder = tempfile.mkdtemp(prefix="ht-")  # short: the names of Unix sockets must be
    os.environ |= {_TEMPORARY: folder, "TMPDIR": folder, "JAVA_TOOL_OPTIONS": f"-Djava.io.tmpdir={folder}"}
    tempfile.tempdir = None


def pytest_unconfigure(config: pytest.Config) -> None:
    """Remove that folder, in the process that created it."""
    if not hasattr(config, "workerinput"):
        shutil.rmtree(os.environ[_TEMPORARY], ignore_errors=True)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Long tests first (see tests/rigs/schedule.py)."""
    from tests.rigs.schedule import place

    items.sort(key=lambda item: place(item.nodeid))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """`--dist loadfile` keeps files that share a worker together."""
    from tests.rigs.schedule import UnitScheduling

    return UnitScheduling(config, log) if config.getvalue("dist") == "loadfile" else None


def pytest_collection_finish() -> None:
    """Exclude everything that exists now from garbage collection, because it lives until the end."""
    gc.freeze()
    gc.enable()


@pytest.fixture(scope="session")
def broker() -> Iterator[EmbeddedBroker]:
    """A real Kafka for the whole run, on a free port, with a separate folder that is removed afterwards.

    Never stop it: a test that needs a broker to fail starts its own EmbeddedBroker.
    """
    from heeler.embedded_kafka.broker import EmbeddedBroker

    settings = {
        # Sessions of a fraction of a second let tests see members time out.
        "group.min.session.timeout.ms": "500",
        # Some tests write records of 1970, which Kafka would delete half a minute after its start.
        "log.retention.ms": "-1",
        # Everything is allowed, except what a test denies.
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "allow.everyone.if.no.acl.found": "true",
    }
    with EmbeddedBroker(quick=True, settings=settings, progress=lambda line: print(line, file=sys.stderr)) as running:  # noqa: T201
        yield running


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown() -> None:
    """No test's texts are masked because of secrets from another test in this process. (A fixture takes longer.)"""
    masking = sys.modules.get("spark_tasks.config.masking")
    if masking is not None:
        masking.process_secrets.cache_clear()


@pytest.fixture
def topic_name(request: pytest.FixtureRequest) -> str:
    """A name that no other test uses (for topics, groups and connectors)."""
    name = "".join(c if c.isalnum() else "-" for c in request.node.name)[:60].strip("-")
    return f"{name}-{uuid.uuid4().hex[:8]}"


@pytest.fixture
def worker_properties(broker: EmbeddedBroker, topic_name: str) -> dict[str, str]:
    """Properties of a distributed worker on the test broker, with a group and internal topics of its own."""
    return {
        "bootstrap.servers": broker.bootstrap_servers,
        "group.id": f"group-{topic_name}",
        "key.converter": "org.apache.kafka.connect.storage.StringConverter",
        "value.converter": "org.apache.kafka.connect.storage.StringConverter",
        **{f"{kind}.storage.topic": f"{topic_name}-{kind}s" for kind in ("config", "offset", "status")},
        **{f"{kind}.storage.replication.factor": "1" for kind in ("config", "offset", "status")},
        "offset.storage.partitions": "3",
        "status.storage.partitions": "2",
        "listeners": "http://127.0.0.1:0",
        "rest.advertised.host.name": "127.0.0.1",
        "scheduled.rebalance.max.delay.ms": "0",
    }
