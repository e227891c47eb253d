from __future__ import annotations

import queue
import sys
import threading

import pytest

from actors.errors import BadRequestError, NotFoundError, TimedOutError
from actors.system import validation as validation_module
from actors.system.validation import MAX_ABANDONED, Validation, describe_plugin
from actors.ticker import Ticker
from spark_tasks.errors import ConfigError, ConnectError
from spark_tasks.plugins import Plugins
from spark_tasks.validation import ValidationSettings
from tests.rigs.plugin_under_test import FOUND, Scripted
from tests.rigs.support import no_thread

PLUGINS = Plugins(installed=FOUND)
CONFIG = {"name": "v", "connector.class": "ScriptedSource"}


@pytest.fixture
def ticker():
    made = Ticker()
    made.start()
    yield made
    made.stop()


@pytest.fixture
def answers():
    return queue.Queue()


def validation(ticker, deadline_ms=60_000, resolve=dict):
    return Validation(PLUGINS, ValidationSettings(group_id="g"), resolve, ticker, deadline_ms=deadline_ms)


def ask(made, config, answers):
    made.start(config, lambda infos, error: answers.put((infos, error)))
    return answers.get(timeout=10)


def test_the_plugins_result_is_returned(ticker, answers):
    infos, error = ask(validation(ticker), {**CONFIG, "wish": "bad"}, answers)
    assert error is None
    assert (infos.error_count, infos.errors()) == (1, ["granted never"])
    assert infos.to_json()["configs"][-1]["value"]["errors"] == ["granted never"]


def test_a_plugin_that_exits_is_the_answer(ticker, answers):
    infos, error = ask(validation(ticker, resolve=lambda *_: sys.exit(3)), CONFIG, answers)
    assert (infos, str(error)) == (None, "the plugin raised SystemExit: 3")


def test_check_reports_all_errors_in_one_message(ticker, answers):
    made = validation(ticker)
    made.check(CONFIG, answers.put)
    assert answers.get(timeout=10) is None
    made.check({**CONFIG, "wish": "bad", "tasks.max": "x"}, answers.put)
    error = answers.get(timeout=10)
    assert isinstance(error, BadRequestError)
    assert str(error).splitlines()[:3] == [
        "Connector configuration is invalid and contains the following 3 error(s):",
        "Invalid value x for configuration tasks.max: Not a number of type INT",
        "Invalid value null for configuration tasks.max: Value must be non-null"]


@pytest.mark.parametrize("config", [{"name": "x"}, {"name": "x", "connector.class": "Nope"}])
def test_a_config_without_a_known_connector_class_is_refused(ticker, answers, config):
    infos, error = ask(validation(ticker), config, answers)
    assert infos is None
    assert isinstance(error, BadRequestError)


def test_a_connector_without_a_config_def_is_refused(ticker, answers, monkeypatch):
    monkeypatch.setattr(Scripted, "config_def", None)
    infos, error = ask(validation(ticker), CONFIG, answers)
    assert infos is None
    assert isinstance(error, BadRequestError)
    assert "has no config_def: set it in the class" in str(error)


def test_any_error_of_the_plugin_is_the_result(ticker, answers):
    def fail(_what):
        raise ZeroDivisionError("in the plugin")

    Scripted.hooks["v"] = fail
    try:
        _, error = ask(validation(ticker), CONFIG, answers)
    finally:
        del Scripted.hooks["v"]
    assert isinstance(error, ZeroDivisionError)


def test_an_error_of_a_config_provider_is_returned(ticker, answers):
    def fail(_config):
        raise ConfigError("no such file")

    _, error = ask(validation(ticker, resolve=fail), CONFIG, answers)
    assert isinstance(error, ConfigError)


class Remote:
    """Calls that are carried out, or that hang until they are killed."""

    def __init__(self, *, hangs=False):
        self.called, self.hangs, self.killed = [], hangs, threading.Event()

    def call(self, plugin, function, *arguments):  # noqa: ARG002
        self.called.append(function.__name__)
        if self.hangs:
            assert self.killed.wait(10)
            raise ConnectError("killed")
        return function(*arguments)

    def kill(self):
        self.killed.set()


def test_functions_of_a_plugin_are_called_elsewhere(ticker, answers):
    remote = Remote()
    made = Validation(PLUGINS, ValidationSettings(group_id="g"), dict, ticker, calls=lambda _: remote)
    infos, _ = ask(made, {**CONFIG, "wish": "bad"}, answers)
    assert infos.errors() == ["granted never"]
    assert remote.called == ["_own_values"]


def test_a_call_elsewhere_is_ended_after_the_deadline(ticker, answers):
    remote = Remote(hangs=True)
    made = Validation(PLUGINS, ValidationSettings(group_id="g"), dict, ticker, deadline_ms=1, calls=lambda _: remote)
    _, error = ask(made, CONFIG, answers)
    assert isinstance(error, TimedOutError)
    assert remote.killed.wait(10)


def test_a_validation_whose_thread_cannot_be_started_leaves_nothing_behind(ticker, answers, monkeypatch):
    made = validation(ticker, deadline_ms=1)
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", no_thread)
        with pytest.raises(RuntimeError):
            made.start(CONFIG, lambda infos, error: answers.put((infos, error)))
    ended = threading.Event()
    ticker.set("later", ticker.now_ms() + 20, ended.set)
    assert ended.wait(10)
    assert answers.empty(), "its deadline is over as well"


def test_no_more_validations_are_begun_of_a_connector_that_hangs(ticker, answers, monkeypatch):
    """A client may repeat its request for ever, and each leaves a thread behind. Others of its class are validated."""
    release, begun = threading.Event(), queue.Queue()
    Scripted.hooks["v"] = lambda _what: begun.put(threading.current_thread()) or release.wait(10)
    try:
        made = validation(ticker, deadline_ms=1)
        for _ in range(MAX_ABANDONED):
            assert isinstance(ask(made, CONFIG, answers)[1], TimedOutError)
        threads = [begun.get(timeout=10) for _ in range(MAX_ABANDONED)]
        _, error = ask(made, CONFIG, answers)
        assert str(error) == ("Earlier validations are still hanging (10 of this connector and 10 of its class), "
                              "so no more are started")
        _, error = ask(made, {**CONFIG, "name": "w"}, answers)
        assert error is None or isinstance(error, TimedOutError)
        monkeypatch.setattr(validation_module, "MAX_OF_CLASS", MAX_ABANDONED)
        _, error = ask(made, {**CONFIG, "name": "x"}, answers)
        assert str(error).startswith("Earlier validations are still hanging (0 of this connector and 1")
    finally:
        del Scripted.hooks["v"]
        release.set()
    for thread in threads:
        thread.join(10)
    assert ask(validation(ticker), CONFIG, answers)[0].error_count == 0
    assert begun.empty()


def test_the_worker_does_not_wait_for_a_plugin_that_hangs(ticker, answers):
    release = threading.Event()
    Scripted.hooks["v"] = lambda _what: release.wait(10)
    try:
        made = validation(ticker, deadline_ms=500)
        _, error = ask(made, CONFIG, answers)
        assert isinstance(error, TimedOutError)
        assert str(error).startswith("Request timed out. The worker is currently performing multi-property validation "
                                     "for the connector, which began at 20")
        assert error.stage.description.startswith("performing")
        infos, _ = ask(made, {**CONFIG, "name": "other"}, answers)
        assert infos.error_count == 0
    finally:
        del Scripted.hooks["v"]
        late = [t for t in threading.enumerate() if t.name == "validate-v"]
        release.set()
    for thread in late:
        thread.join(10)
    assert late
    assert answers.empty()  # the late answer is dropped


def test_the_keys_of_a_plugin_are_described():
    keys = [key["name"] for key in describe_plugin(PLUGINS, "ScriptedSource", None)]
    assert keys[:2] == ["wish", "name"]
    assert describe_plugin(PLUGINS, "ScriptedSource", "[7,8)")
    with pytest.raises(NotFoundError, match=r"^Unknown plugin Nope\.$"):
        describe_plugin(PLUGINS, "Nope", None)
    with pytest.raises(BadRequestError, match="matches the version range"):
        describe_plugin(PLUGINS, "ScriptedSource", "9")
