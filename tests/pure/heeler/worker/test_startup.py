"""Starting a worker: the checks before it, and waits that can be interrupted."""

import signal
import threading
from concurrent.futures import Future

import pytest

from actors.messages.commands import HerderAlive, JoinGroup
from heeler.worker.startup import (
    HerderWatch,
    StoppedError,
    checked_plugins,
    in_background,
    wait_for,
)
from spark_tasks.errors import ConfigError

CONVERTERS = {
    "key.converter": "org.apache.kafka.connect.storage.StringConverter",
    "value.converter": "Json",
    "header.converter": "SimpleHeaderConverter",
    "plugin.path": [],
    **dict.fromkeys(f"{kind}.converter.plugin.version" for kind in ("key", "value", "header")),
}


def test_converters_are_found_by_any_of_their_names():
    plugins = checked_plugins(CONVERTERS)
    assert plugins.connector_type({"connector.class": "FileStreamSink"}) == "sink"


@pytest.mark.parametrize("key", ["key.converter", "value.converter", "header.converter"])
def test_a_missing_converter_is_reported(key):
    with pytest.raises(ConfigError, match=rf"Invalid value no\.Such for configuration {key}: Class no\.Such could not"):
        checked_plugins({**CONVERTERS, key: "no.Such"})


def test_a_missing_version_of_a_converter_is_reported():
    with pytest.raises(ConfigError, match=r"not found that matches the version range \[1.0,1.0\]"):
        checked_plugins({**CONVERTERS, "value.converter.plugin.version": "1.0"})


def test_wait_for_returns_the_functions_result():
    assert wait_for(in_background(lambda: 5), threading.Event()) == 5
    with pytest.raises(ZeroDivisionError):
        wait_for(in_background(lambda: 1 // 0), threading.Event())


def test_wait_for_raises_the_functions_own_timeout_error():
    def late():
        raise TimeoutError("its own")

    with pytest.raises(TimeoutError, match="its own"):
        wait_for(in_background(late), threading.Event())


def test_wait_for_ends_on_request():
    stop, never = threading.Event(), Future()
    threading.Timer(0.02, stop.set).start()
    with pytest.raises(StoppedError):
        wait_for(never, stop)


def test_wait_for_says_that_it_still_waits(monkeypatch):
    monkeypatch.setattr("heeler.worker.startup.STILL_S", 0.01)
    late, said = Future(), []

    def still():
        said.append("still")
        if len(said) == 3:
            late.set_result(7)

    assert wait_for(late, threading.Event(), still) == 7
    assert said == ["still"] * 3


def test_a_signal_delivered_to_another_thread_is_handled():
    stop, received = threading.Event(), []

    def handle(*_):
        received.append("signal")
        stop.set()

    before = signal.signal(signal.SIGUSR1, handle)
    given = threading.Timer(0.02, lambda: signal.pthread_kill(threading.get_ident(), signal.SIGUSR1))
    late = threading.Timer(10, stop.set)
    try:
        given.start()
        late.start()
        HerderWatch(received.append, 60).wait_for_stop(stop)
    finally:
        late.cancel()
        given.join()
        signal.signal(signal.SIGUSR1, before)
    assert received == ["signal"]


def test_the_main_thread_detects_a_silent_herder():
    """Or the ticker, from which its pulses come: nothing else would end what runs on."""
    stop, reported = threading.Event(), []
    watch = HerderWatch(lambda reason: (reported.append(reason), stop.set()), 0.2)
    watch.wait_for_stop(stop)
    assert reported == ["The herder has not responded for 0 s"]


def test_only_pulses_reset_the_watch_and_all_messages_are_delivered():
    stop, reported, received = threading.Event(), [], []
    watch = HerderWatch(reported.append, 0.5)
    tell = watch.counting(received.append)

    def beat():
        for _ in range(40):
            tell(HerderAlive())
            stop.wait(0.02)
        stop.set()

    beating = threading.Thread(target=beat)
    beating.start()
    watch.wait_for_stop(stop)
    beating.join()
    assert reported == []
    assert received == [HerderAlive()] * 40
    stop.clear()
    silent = HerderWatch(lambda _: stop.set(), 0.2)
    silent.counting(received.append)(JoinGroup())
    silent.wait_for_stop(stop)
    assert received[-1] == JoinGroup()
