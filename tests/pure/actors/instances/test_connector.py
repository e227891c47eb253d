from __future__ import annotations

import queue
import threading

import pytest

from actors.instances.connector import ConnectorActor, ConnectorActors
from actors.instances.pooled import ActorThreads
from actors.instances.scaler import Watched
from actors.instances.watchdog import Pace
from actors.messages.commands import ChangeTargetState, GenerateTaskConfigs, StartConnector, Stop
from actors.messages.events import ConnectorStateReported, TaskConfigsGenerated, TaskReconfigurationRequested
from spark_tasks.config.scaling import Bounds, Scale
from spark_tasks.errors import RetriableError
from spark_tasks.plugins import Plugins
from spark_tasks.plugins.config_providers import ConfigTransformer, EnvVarConfigProvider
from spark_tasks.plugins.connector_instance import InstanceOnWorker
from spark_tasks.tasks.configs import TooManyTasksError
from storage.ids import State, TargetState
from tests.rigs.plugin_under_test import FOUND, Scripted
from tests.rigs.support import no_thread, wait_until

STARTED, PAUSED, STOPPED = TargetState.STARTED, TargetState.PAUSED, TargetState.STOPPED
TRANSFORMER = ConfigTransformer({"env": EnvVarConfigProvider({"SECRET": "hunter2"})})
OFFSETS = {(True, "own"): [({"file": "a"}, {"position": 1})]}


class Rig:
    """One actor and everything that it said."""

    def __init__(self, name, watch_lag=None, **options):
        self.name = name
        self.said = queue.Queue()
        self.ref = ConnectorActor.start(
            7, self.said.put, Plugins(installed=FOUND), TRANSFORMER.transform,
            lambda name, config: OFFSETS[name == self.name, config.get("offsets.storage.topic")], watch_lag=watch_lag,
            threads=ActorThreads(), **options)

    def start(self, target=STARTED, **config):
        given = {"name": self.name, "connector.class": "ScriptedSource", **config}
        self.ref.tell(StartConnector(self.name, given, target))

    def change(self, target):
        self.ref.tell(ChangeTargetState(target))

    def next(self):
        return self.said.get(timeout=10)

    def state(self, expected, *, gone=False):
        report = self.next()
        assert isinstance(report, ConnectorStateReported), report
        assert (report.connector, report.epoch, report.state, report.stopped_for_good) == (self.name, 7, expected, gone)
        return report

    def generate(self, op=1):
        self.ref.tell(GenerateTaskConfigs(op))

    @property
    def plugin(self):
        return Scripted.instances[self.name]

    @property
    def did(self):
        return [what for what, _ in Scripted.calls.get(self.name, [])]

    def quiet(self):
        """Nothing more is said: everything sent so far is handled."""
        self.ref.tell(GenerateTaskConfigs(99))
        answer = self.next()
        assert isinstance(answer, TaskConfigsGenerated), answer


@pytest.fixture
def rig(request):
    made = Rig(request.node.name)
    yield made
    Scripted.hooks.pop(made.name, None)
    if made.ref.is_alive():
        made.ref.tell(Stop())
    made.ref.actor_stopped.wait(10)


def fail_at(rig, *steps, error=None):
    def hook(what):
        if what in steps:
            raise error or OSError(f"{what} is broken")
    Scripted.hooks[rig.name] = hook


def test_a_connector_runs_pauses_stops_and_ends(rig):
    rig.start()
    assert rig.state(State.RUNNING).version == "7.1"
    rig.change(PAUSED)
    rig.state(State.PAUSED)
    rig.change(STARTED)
    rig.state(State.RUNNING)
    rig.change(STOPPED)
    rig.state(State.STOPPED)
    rig.change(PAUSED)
    rig.state(State.PAUSED)
    rig.change(STARTED)
    rig.state(State.RUNNING)
    rig.ref.tell(Stop())
    rig.state(State.UNASSIGNED, gone=True)
    assert rig.did == ["init", "start", "stop", "start", "stop", "start", "stop"]
    assert rig.ref.actor_stopped.wait(10)


@pytest.mark.parametrize(("settings", "wrong"), [
    ({"default.partitions": "1"}, 'Missing required configuration "topic.creation.default.replication.factor"'),
    ({"default.partitions": "1", "default.replication.factor": "0"}, "Replication factor must be positive"),
    ({"default.partitions": "1", "default.replication.factor": "1", "groups": "g", "g.include": "("}, "g.include"),
])
def test_invalid_settings_of_topic_creation_fail_the_connector_if_the_worker_creates_topics(request, settings, wrong):
    """As SourceConnectorConfig does in Java's Worker.startConnector."""
    config = {f"topic.creation.{key}": value for key, value in settings.items()}
    for creates in (True, False):
        rig = Rig(f"{request.node.name}-{creates}", topic_creation=creates)
        rig.start(**config)
        report = rig.state(State.FAILED if creates else State.RUNNING)
        assert (wrong in (report.trace or "")) is creates
        assert report.permanent is creates
        rig.ref.tell(Stop())
        assert rig.ref.actor_stopped.wait(10)


class Lost(InstanceOnWorker):
    """A connector in a process that can end."""

    def __init__(self, connector, lost):
        super().__init__(connector)
        self.lost, self.recovered, self.error = lost, 0, None

    def recover(self):
        self.recovered += 1
        if self.error:
            raise self.error


def test_a_running_connector_whose_process_ends_starts_again(request):
    made = []

    def make(cls, config, context, lost):
        made.append(Lost(cls(dict(config), context), lost))
        return made[0]

    rig = Rig(request.node.name, make_instance=make)
    rig.start()
    rig.state(State.RUNNING)
    made[0].lost()
    wait_until(lambda: made[0].recovered == 1)
    made[0].error = RetriableError("again and again")
    made[0].lost()
    assert "again and again" in rig.state(State.FAILED).trace
    made[0].lost()
    rig.ref.tell(Stop())
    rig.state(State.UNASSIGNED, gone=True)
    assert made[0].recovered == 2, "it had failed"


class Hung:
    """A connector whose `start` hangs until it is released; its `abandon` is given, by default a release."""

    def __init__(self, name, abandon=None):
        self.name, self.said, self.told, self.released = name, queue.Queue(), [], threading.Event()
        Scripted.hooks[name] = lambda what: self.released.wait(10) if what == "start" else None
        self.actors = ConnectorActors(lambda epoch, made, pace: ConnectorActor.start(
            epoch, self.said.put, Plugins(installed=FOUND), TRANSFORMER.transform, lambda *_: [],
            threads=ActorThreads(), made=made, pace=pace), self.told.append)
        command = StartConnector(name, {"name": name, "connector.class": "ScriptedSource"}, STARTED)
        self.ref = self.actors.start(7, command)
        self.actors.cancel(self.ref)  # before there is anything to give up
        self.ref.tell(command)
        wait_until(lambda: [what for what, _ in Scripted.calls.get(name, [])] == ["init", "start"])
        Scripted.instances[name].abandon = abandon or self.released.set

    def end(self):
        self.released.set()
        assert self.said.get(timeout=10).state is State.RUNNING
        self.ref.stop()
        del Scripted.hooks[self.name]


def test_a_connector_that_hangs_is_abandoned(request):
    hung = Hung(request.node.name)
    assert hung.told == [7], "its lag is no longer measured"
    hung.actors.cancel(hung.ref)
    assert hung.released.wait(10)
    hung.end()


@pytest.mark.parametrize("error", [ZeroDivisionError("no such run"), SystemExit("no such run")])
def test_what_abandon_raises_is_logged(request, caplog, error):
    def abandon():
        raise error

    hung = Hung(request.node.name, abandon)
    hung.actors.cancel(hung.ref)
    wait_until(lambda: "no such run" in caplog.text)
    [record] = [record for record in caplog.records if "abandon() of the connector failed" in record.getMessage()]
    assert record.heeler_about == request.node.name
    hung.end()


def test_a_connector_whose_abandon_hangs_blocks_no_others(request):
    begun, go_on, ended = threading.Event(), threading.Event(), threading.Event()

    def abandon():
        begun.set()
        go_on.wait(10)
        ended.set()

    hung = Hung(request.node.name, abandon)
    hung.actors.cancel(hung.ref)
    assert begun.wait(10)
    assert not ended.is_set()
    go_on.set()
    hung.end()


def test_a_connector_is_abandoned_without_a_thread_for_its_plugin(request, caplog, monkeypatch):
    hung = Hung(request.node.name)
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", no_thread)
        hung.actors.cancel(hung.ref)
    assert "can't start new thread" in caplog.text
    assert hung.told == [7, 7]
    hung.end()


@pytest.mark.parametrize("target", [PAUSED, STOPPED])
def test_a_connector_that_should_not_run_is_created_but_not_started(rig, target):
    rig.start(target)
    rig.state(State(target.value))
    rig.ref.tell(Stop())
    rig.state(State.UNASSIGNED, gone=True)
    assert rig.did == ["init"]


def test_an_unchanged_target_is_not_reported(rig):
    rig.start()
    rig.state(State.RUNNING)
    rig.change(STARTED)
    rig.quiet()


@pytest.mark.parametrize("step", ["init", "start"])
def test_an_error_at_the_start_is_in_the_status(rig, step):
    fail_at(rig, step)
    rig.start()
    report = rig.state(State.FAILED)
    assert report.trace.startswith(f"OSError: {step} is broken\nTraceback")
    rig.change(STARTED)
    rig.change(PAUSED)
    rig.quiet()
    Scripted.hooks.pop(rig.name)
    rig.change(STOPPED)
    rig.state(State.STOPPED)
    assert "stop" not in rig.did  # what never started is not stopped
    rig.change(STARTED)
    rig.state(State.RUNNING)


@pytest.mark.parametrize("step", ["init", "start"])
def test_a_plugin_that_exits_fails_only_its_connector(rig, step):
    fail_at(rig, step, error=SystemExit(3))
    rig.start()
    assert "PluginExitError: the plugin raised SystemExit: 3\n" in rig.state(State.FAILED).trace
    rig.quiet()


@pytest.mark.parametrize(("config", "message"), [
    ({"connector.class": "Nope"}, "Failed to find any class that implements Connector and which name matches Nope"),
    ({"tasks.max": "0"}, "Invalid value 0 for configuration tasks.max: Value must be at least 1"),
    ({"connector.class": "ScriptedSink"}, "Must configure one of topics or topics.regex"),
    ({"connector.plugin.version": "8"}, "not found that matches the version range [8,8], available versions: [7.1]"),
])
def test_an_invalid_config_fails_the_connector(rig, config, message):
    rig.start(**config)
    assert message in rig.state(State.FAILED).trace


def test_a_failing_stop_fails_a_pause_but_not_a_stop(rig):
    fail_at(rig, "stop")
    rig.start()
    rig.state(State.RUNNING)
    rig.change(PAUSED)
    assert "stop is broken" in rig.state(State.FAILED).trace
    rig.change(STOPPED)
    rig.state(State.STOPPED)
    rig.change(STARTED)
    rig.state(State.RUNNING)
    rig.change(STOPPED)
    rig.state(State.STOPPED)


def test_a_failing_stop_at_the_end_is_reported_and_the_actor_ends(rig):
    fail_at(rig, "stop")
    rig.start()
    rig.state(State.RUNNING)
    rig.ref.tell(Stop())
    assert "stop is broken" in rig.state(State.FAILED, gone=True).trace
    assert rig.ref.actor_stopped.wait(10)


@pytest.mark.parametrize("steps", [(), ("stop",)])
def test_an_ended_connector_is_no_longer_watched(request, steps):
    pace = Pace("c", 7, 0.0)
    rig = Rig(request.node.name, pace=pace)
    fail_at(rig, *steps)
    rig.start()
    rig.state(State.RUNNING)
    assert not pace.ended
    rig.ref.tell(Stop())
    assert rig.ref.actor_stopped.wait(10)
    assert pace.ended
    Scripted.hooks.pop(rig.name)


def test_the_plugin_may_fail_the_connector_from_its_own_thread(rig):
    rig.start()
    rig.state(State.RUNNING)
    thread = threading.Thread(target=lambda: rig.plugin.context.raise_error(OSError("the database is gone")))
    thread.start()
    thread.join()
    assert rig.state(State.FAILED).trace.startswith("OSError: the database is gone")
    rig.plugin.context.raise_error(OSError("again"))
    rig.quiet()
    rig.ref.tell(Stop())
    rig.state(State.UNASSIGNED, gone=True)
    assert rig.did[-1] == "stop"  # what it had started is not left behind
    rig.plugin.context.raise_error(OSError("too late"))


def test_the_context_requests_task_configs_and_reads_offsets(rig):
    rig.start(**{"offsets.storage.topic": "own"})
    rig.state(State.RUNNING)
    rig.plugin.context.request_task_reconfiguration()
    assert rig.next() == TaskReconfigurationRequested(rig.name, 7)
    assert rig.plugin.context.offsets() == OFFSETS[True, "own"]


def test_task_configs_keep_placeholders_and_add_the_keys_that_tasks_need(rig):
    rig.start(**{"connector.class": "ScriptedSink", "topics": "${env:SECRET}", "topics.regex": "", "tasks.max": "2",
                 "tasks": "2", "wish": "${env:SECRET}", "half": "a-${env:SECRET}", "odd": "${x}"})
    rig.state(State.RUNNING)
    assert rig.plugin.config["wish"] == "hunter2"
    rig.generate(5)
    answer = rig.next()
    assert (answer.connector, answer.epoch, answer.op, answer.error) == (rig.name, 7, 5, None)
    assert answer.configs == tuple({
        "name": rig.name, "connector.class": "ScriptedSink", "topics": "${env:SECRET}", "topics.regex": "",
        "tasks.max": "2", "tasks": "2", "wish": "${env:SECRET}", "half": "a-${env:SECRET}", "odd": "${x}",
        "task": str(n), "task.class": "com.acme.ScriptedSinkTask"} for n in range(2))
    assert "hunter2" not in repr(answer)


def test_too_many_tasks_fail_the_connector_and_then_the_request(rig):
    rig.start(tasks="3", **{"tasks.max": "2"})
    rig.state(State.RUNNING)
    rig.generate()
    trace = rig.state(State.FAILED).trace
    assert (f"The connector {rig.name} has generated 3 tasks, which is greater than 2, the maximum number of tasks it "
            "is configured to create.") in trace
    assert isinstance(rig.next().error, TooManyTasksError)


def test_too_many_tasks_may_be_permitted(rig, caplog):
    rig.start(tasks="3", **{"tasks.max": "2", "tasks.max.enforce": "false"})
    rig.state(State.RUNNING)
    rig.generate()
    assert len(rig.next().configs) == 3
    assert "has generated 3 tasks" in caplog.text


def test_failing_task_configs_leave_the_connector_running(rig):
    fail_at(rig, "task_configs")
    rig.start()
    rig.state(State.RUNNING)
    rig.generate()
    assert str(rig.next().error) == "task_configs is broken"
    Scripted.hooks.pop(rig.name)
    rig.generate()
    assert rig.next().error is None


@pytest.mark.parametrize(("answer", "reported"), [
    ([{"port": 80}], "must return strings only; check port"), (["port"], "must return mappings, not a str"),
    (None, "must return a list of mappings, not a NoneType"),
])  # fmt: skip
def test_invalid_task_configs(rig, answer, reported):
    rig.start()
    rig.state(State.RUNNING)
    rig.plugin.task_configs = lambda _max_tasks: answer
    rig.generate()
    assert f"task_configs {reported}" in str(rig.next().error)


def test_a_paused_connector_generates_no_task_configs(rig):
    rig.start(PAUSED)
    rig.state(State.PAUSED)
    rig.generate()
    assert f"Cannot generate task configurations: connector {rig.name} is paused" in str(rig.next().error)


def test_a_plugin_that_hangs_blocks_no_others(rig):
    begun, release = threading.Event(), threading.Event()

    def hang(what):
        if what == "start":
            begun.set()
            release.wait(10)

    Scripted.hooks[rig.name] = hang
    rig.start()
    assert begun.wait(10)
    other = Rig(rig.name + "-other")
    try:
        other.start()
        other.state(State.RUNNING)
        rig.ref.tell(Stop())
        assert rig.said.empty()
    finally:
        other.ref.tell(Stop())
        release.set()
    rig.state(State.RUNNING)
    rig.state(State.UNASSIGNED, gone=True)


def test_stop_before_start_ends_the_actor(rig):
    rig.ref.tell(Stop())
    assert rig.ref.actor_stopped.wait(10)


def test_a_sink_that_scales_by_lag_gets_the_wanted_number_of_tasks():
    watched = []

    def watch(name, epoch, config):
        watched.append(Watched(name, epoch, config, Bounds.of(config), 3))
        return watched[-1]

    rig = Rig("by-lag", watch)
    asked = []
    rig.start(**{"connector.class": "ScriptedSink", "topics": "t", "tasks.max": "5", "tasks.auto": "true"})
    rig.state(State.RUNNING)
    rig.plugin.task_configs = lambda max_tasks: asked.append(max_tasks) or [{}] * max_tasks
    rig.generate()
    assert len(rig.next().configs) == 3
    watched[0].scale = Scale(5)
    rig.generate()
    assert len(rig.next().configs) == 5
    assert asked == [3, 5]
    rig.change(PAUSED)
    rig.state(State.PAUSED)
    assert watched[0].ended
    rig.change(STARTED)
    rig.state(State.RUNNING)
    assert [(w.connector, w.epoch, w.ended) for w in watched] == [("by-lag", 7, True), ("by-lag", 7, False)]
    rig.ref.stop()


def test_the_number_of_a_sources_tasks_does_not_follow_a_lag():
    rig = Rig("source-by-lag", lambda *_: pytest.fail("it is watched"))
    rig.start(**{"tasks.auto": "true"})
    rig.state(State.RUNNING)
    rig.ref.stop()
