"""Which host process gets a connection, and when a process ends; the processes are simulated."""

from __future__ import annotations

import pytest

from heeler.java_host import host
from heeler.java_host.host import collector
from spark_tasks.errors import ConnectError
from spark_tasks.host_frames import HostGoneError, message
from tests.rigs.host_processes import RETIRE, hosts
from tests.rigs.support import wait_until


def test_connectors_share_one_host_which_is_restarted_after_its_end(made):
    java = hosts()
    java.connect(connector="a")
    java.connect(connector="b").close()
    java.connect()
    (first,) = made
    first.alive = False
    java.connect(connector="a")
    assert (len(made), first.closed, made[1].whose) == (2, 1, "Java plugin host")


def test_each_connector_has_its_own_host_which_ends_when_unused(made):
    java = hosts(isolated=True)
    java.connect().close()
    kept, left = java.connect(connector="a"), java.connect(connector="a")
    java.connect(connector="b").close()
    assert [process.whose for process in made] == ["Java plugin host", "Java plugin host of a", "Java plugin host of b"]
    wait_until(lambda: made[2].closed)
    left.close()
    java.connect(connector="b")
    assert [process.closed for process in made[:2]] == [0, 0]
    kept.close()
    wait_until(lambda: made[1].closed)
    assert len(made) == 4


def test_users_of_a_retired_host_leave_it_and_new_ones_use_its_successor(made):
    java, reported = hosts(), []
    one = java.connect(reported.append, connector="a")
    two = java.connect(connector="b")
    (first,) = made
    first.ends[0].sendall(message(0, RETIRE))
    wait_until(lambda: reported == [RETIRE])
    java.connect(connector="a")
    first.ends[0].sendall(message(0, RETIRE))  # once more is nothing new
    assert len(made) == 2
    one.close()
    java.connect(connector="a")
    assert first.closed == 0
    two.close()
    wait_until(lambda: first.closed)
    assert (len(made), made[1].closed) == (2, 0)


def test_the_end_of_a_host_is_reported_for_its_connectors_and_tasks(made):
    java, reported = hosts(), []
    java.on_end = lambda *what: reported.append(what)
    java.connect(name="a-0", connector="a")
    left = java.connect(name="b", connector="b")
    left.close()
    (first,) = made
    first.ends[0].sendall(message(0, RETIRE))
    wait_until(lambda: reported == [
        ("a", "a-0", "the Java plugin host is being replaced (It is old); it continues in a new one")])
    first.ends[0].close()
    wait_until(lambda: reported[1:] == [
        ("a", "a-0", "the Java plugin host has ended (it was played); it continues in a new one")])


@pytest.mark.parametrize(("op", "times"), [("validate", 4), ("alterOffsets", 1)])
def test_a_request_to_a_host_that_is_ending_goes_to_the_next(made, monkeypatch, op, times):
    """Except for requests that may already have been carried out."""
    monkeypatch.setattr(host, "PAUSES_S", (0.0, 0.0, 0.0))
    java, asked = hosts(), []

    def gone(*question, **_):
        asked.append(question)
        raise HostGoneError("it ends")

    monkeypatch.setattr(host.Connection, "ask_within", gone)
    with pytest.raises(HostGoneError):
        java.ask(op)
    assert len(asked) == times


def test_a_host_that_accepts_no_connections_is_replaced_too(made):
    java = hosts()
    java.connect()
    made[0].accepts = False
    java.connect()
    assert (len(made), made[0].closed) == (2, 0)


def test_users_that_do_not_leave_in_time_end_with_the_host(made):
    java, reported = hosts(grace_s=0.0), []
    java.connect(reported.append)
    made[0].ends[0].sendall(message(0, RETIRE))
    wait_until(lambda: [type(event) for event in reported] == [dict, HostGoneError])
    java.close()
    with pytest.raises(ConnectError, match="shutting down"):
        java.connect()


@pytest.mark.parametrize(("options", "processors", "chosen"), [
    (["-Xmx2G"], 2, "-XX:+UseSerialGC"), ([], None, "-XX:+UseSerialGC"), (["-XX:-UseParallelGC"], 8, "-XX:+UseG1GC"),
    (["-XX:+UseParallelGC"], 2, ""), (["-Xmx1G", "-XX:+UseZGC", "-XX:+ZGenerational"], 8, "")])
def test_a_garbage_collector_is_chosen_only_if_the_options_name_none(options, processors, chosen):
    assert " ".join(collector(options, processors)).partition(" ")[0] == chosen
