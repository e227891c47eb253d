"""The actor of one connector instance: it handles messages of the herder, calls the plugin, and reports to the herder.

A plugin that hangs blocks only this actor: the herder continues, and abandons the instance if necessary.
"""

from __future__ import annotations

import logging
import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass
from typing import Any

import pykka
from typing_extensions import override

from actors.instances.connector_state import (
    ConnectorAction,
    ConnectorEvent,
    ConnectorPhase,
    advance,
    event_for,
    reported,
)
from actors.instances.pooled import ActorThreads, PooledActor
from actors.instances.scaler import Watched
from actors.instances.task import trace_of
from actors.instances.watchdog import Pace, Stack, Watchdog
from actors.messages.commands import ChangeTargetState, GenerateTaskConfigs, StartConnector, Stop
from actors.messages.correlation_ids import Epoch
from actors.messages.events import ConnectorStateReported, TaskConfigsGenerated, TaskReconfigurationRequested
from spark_tasks.config.connector_keys import SINK, SOURCE
from spark_tasks.config.masking import hide_passwords
from spark_tasks.config.topic_groups import TopicGroups
from spark_tasks.errors import ConfigError, ConnectError, is_permanent, plugin_code
from spark_tasks.metrics.plugins import PluginMetrics
from spark_tasks.plugins import Plugin, Plugins
from spark_tasks.plugins.api import ConnectorContext
from spark_tasks.plugins.connector_instance import ConnectorInstance, MakeInstance, on_worker
from spark_tasks.task import SourceOffset, SourcePartition
from spark_tasks.tasks.configs import TooManyTasksError, make_task_configs
from spark_tasks.validation.rules import topics_error
from storage.ids import Config, ConnectorName, State

_logger = logging.getLogger(__name__)

Tell = Callable[[ConnectorStateReported | TaskConfigsGenerated | TaskReconfigurationRequested], None]
Resolve = Callable[[Config, ConnectorName], Mapping[str, str]]
"""Returns a connector's configuration with the placeholders of config providers replaced; raises ConfigError."""
ReadOffsets = Callable[[ConnectorName, Mapping[str, str]], Sequence[tuple[SourcePartition, SourceOffset]]]
LogContext = Callable[[ConnectorName], AbstractContextManager[Any]]
Make = Callable[[Epoch, Callable[[ConnectorInstance], None], Pace], pykka.ActorRef["ConnectorActor"]]
"""Starts a ConnectorActor with its `epoch`, `made` and `pace`."""
WatchLag = Callable[[ConnectorName, Epoch, Mapping[str, str]], Watched | None]
"""Scaler.watch."""


@dataclass(frozen=True, slots=True)
class _Failed:
    """The plugin reports a failure from its own thread."""

    error: Exception


class _ProcessEnded:
    """The connector's process has ended."""


Message = StartConnector | ChangeTargetState | GenerateTaskConfigs | Stop | _Failed | _ProcessEnded


class _Context(ConnectorContext):
    """The plugin's ConnectorContext. Its methods may be called on any thread, and only send messages."""

    def __init__(self, actor: pykka.ActorRef[Any], tell: Tell, name: ConnectorName, epoch: Epoch,
                 read_offsets: Callable[[], Sequence[tuple[SourcePartition, SourceOffset]]],
                 metrics: PluginMetrics) -> None:
        self._metrics = metrics
        self._actor = actor
        self._tell = tell
        self._name = name
        self._epoch = epoch
        self._read_offsets = read_offsets

    @property
    @override
    def metrics(self) -> PluginMetrics:
        return self._metrics

    @override
    def request_task_reconfiguration(self) -> None:
        self._tell(TaskReconfigurationRequested(self._name, self._epoch))

    @override
    def raise_error(self, error: Exception) -> None:
        try:
            self._actor.tell(_Failed(error))
        except pykka.ActorDeadError:
            _logger.info("An instance that was stopped earlier reports an error: %s", error,
                         extra={"heeler_about": self._name})

    @override
    def offsets(self) -> Sequence[tuple[SourcePartition, SourceOffset]]:
        return self._read_offsets()


class ConnectorActors:
    """Creates connector actors for the herder, and abandons those whose plugin hangs."""

    def __init__(self, make: Make, abandoned: Callable[[Epoch], None] = lambda _: None,
                 watchdog: Watchdog | None = None, limit_s: Callable[[Config], float] = lambda _: 0.0) -> None:
        """`make` starts an actor. `abandoned` is called with the epoch of each actor that is abandoned. `limit_s`: how
        long a call of a plugin with this configuration may take before the watchdog reports it.
        """
        self._make = make
        self._abandoned = abandoned
        self._watchdog = watchdog or Watchdog(lambda _: None)
        self._limit_s = limit_s
        self._made: weakref.WeakValueDictionary[str, _Made] = weakref.WeakValueDictionary()

    def start(self, epoch: Epoch, command: StartConnector) -> pykka.ActorRef[ConnectorActor]:
        """A new actor, which then has to be sent the StartConnector."""
        pace = self._watchdog.watch(command.connector, epoch, self._limit_s(command.config))
        made = _Made(pace)
        try:
            ref = self._make(epoch, made.take, pace)
        except BaseException:  # no actor will end it
            pace.ended = True
            raise
        self._made[ref.actor_urn] = made
        return ref

    def where(self, ref: pykka.ActorRef[Any]) -> Stack | None:
        """The stack of the call of the plugin that an actor is in; None if there is none. Any thread."""
        made = self._made.get(ref.actor_urn)
        return made.pace.where() if made is not None else None

    def cancel(self, ref: pykka.ActorRef[Any]) -> None:
        """Abandons an actor's plugin, whose `abandon` is called on a thread of its own. Never blocks; any thread."""
        made = self._made.get(ref.actor_urn)
        if made is not None:
            made.pace.ended = True
            self._abandoned(made.pace.epoch)
            if made.connector is not None:
                made.abandon(made.connector)


class _Made:
    """Holds the plugin's object of an actor; lives as long as the actor, which references `take`."""

    def __init__(self, pace: Pace) -> None:
        self.pace = pace
        self.connector: ConnectorInstance | None = None

    def take(self, connector: ConnectorInstance) -> None:
        self.connector = connector
        self.pace.runner = connector

    def abandon(self, connector: ConnectorInstance) -> None:
        """Never blocks or raises: what the plugin does must not affect the herder, which calls this."""

        def call() -> None:
            try:
                with plugin_code():
                    connector.abandon()
            except Exception as error:  # noqa: BLE001 - plugin code; whatever it raises, the connector is abandoned
                self._log(error)

        try:
            threading.Thread(target=call, name=f"abandon-{self.pace.item}", daemon=True).start()
        except RuntimeError as error:  # the system may have no thread left
            self._log(error)

    def _log(self, error: Exception) -> None:
        _logger.error("abandon() of the connector failed; what hangs in it may keep its thread and resources",
                      exc_info=error, extra={"heeler_about": self.pace.item})


class ConnectorActor(PooledActor):
    """One instance of a connector; takes StartConnector, ChangeTargetState, GenerateTaskConfigs and Stop."""

    def __init__(
        self, epoch: Epoch, tell: Tell, plugins: Plugins, resolve: Resolve, read_offsets: ReadOffsets,
        log_context: LogContext | None = None, metrics: Callable[[ConnectorName], PluginMetrics] | None = None,
        watch_lag: WatchLag | None = None, *, threads: ActorThreads, topic_creation: bool = True,
        made: Callable[[ConnectorInstance], None] = lambda _: None, pace: Pace | None = None,
        make_instance: MakeInstance = on_worker,
    ) -> None:
        """`made` is called with the connector once it is created. `topic_creation`: the worker's
        topic.creation.enable.
        """
        super().__init__(threads)
        self._topic_creation = topic_creation
        self._metrics = metrics or (lambda _name: PluginMetrics())
        self._made = made
        self._make_instance = make_instance
        self._pace = pace
        self._epoch = epoch
        self._tell = tell
        self._plugins = plugins
        self._resolve = resolve
        self._read_offsets = read_offsets
        self._log_context = log_context or (lambda _name: nullcontext())
        self._phase = ConnectorPhase.NEW
        self._command: StartConnector | None = None
        self._resolved: Mapping[str, str] = {}
        self._plugin: Plugin | None = None
        self._connector: ConnectorInstance | None = None
        self._started = False
        self._watch_lag = watch_lag or (lambda _name, _epoch, _config: None)
        self._watched: Watched | None = None
        self._error: Exception | None = None

    @override
    def on_receive(self, message: Message) -> None:
        """Never raises: what the plugin raises makes the connector FAILED."""
        if isinstance(message, StartConnector):
            self._command = message
        with (self._log_context(self._command.connector) if self._command else nullcontext(),
              self._pace.call() if self._pace is not None else nullcontext()):
            self._receive(message)

    def _receive(self, message: Message) -> None:
        match message:
            case StartConnector(target_state=state) | ChangeTargetState(state):
                self._handle(event_for(state))
            case GenerateTaskConfigs():
                self._generate(message)
            case Stop():
                self._handle(ConnectorEvent.SHUTDOWN)
            case _Failed(error):
                self._fail(error)
            case _ProcessEnded():
                self._recover()

    def _handle(self, event: ConnectorEvent) -> None:
        step = advance(self._phase, event)
        self._phase = step.phase
        for action in step.actions:
            try:
                with plugin_code():
                    self._act(action)
            except Exception as error:  # noqa: BLE001  (plugin code: whatever it raises fails the connector)
                self._fail(error)
                return

    def _act(self, action: ConnectorAction) -> None:
        match action:
            case ConnectorAction.CREATE:
                self._create()
            case ConnectorAction.START:
                self._create().start()
                self._started = True
                self._follow_lag()
            case ConnectorAction.HALT:
                self._halt()
            case ConnectorAction.HALT_ANYWAY:
                try:
                    with plugin_code():
                        self._halt()
                except Exception:  # plugin code; whatever it raises, the connector is stopped
                    _logger.exception("Could not stop the connector cleanly")
            case ConnectorAction.REPORT:
                self._report(reported(self._phase))
            case ConnectorAction.END:
                self.stop()

    @override
    def on_stop(self) -> None:
        """Ends the watch, and the connector's process."""
        if self._pace is not None:
            self._pace.ended = True
        if self._connector is not None:
            self._connector.close()

    def _recover(self) -> None:
        if self._phase is not ConnectorPhase.STARTED or self._connector is None:
            return
        try:
            with plugin_code():
                self._connector.recover()
        except Exception as error:  # noqa: BLE001 - plugin code; whatever it raises fails the connector
            self._fail(error)

    def _create(self) -> ConnectorInstance:
        if self._connector is not None:
            return self._connector
        if self._command is None:
            raise ConnectError("the connector has no configuration yet")
        name = self._command.connector
        self._resolved = self._resolve(self._command.config, name)
        self._plugin = self._plugins.connector_of(self._resolved)
        hide_passwords(name, self._resolved, self._plugin.cls)
        _check(self._plugin, self._resolved, topic_creation=self._topic_creation)
        resolved = self._resolved
        context = _Context(self.actor_ref, self._tell, name, self._epoch, lambda: self._read_offsets(name, resolved),
                           self._metrics(name))
        connector = self._make_instance(self._plugin.cls, self._resolved, context, self._process_ended)
        self._connector = connector
        self._made(connector)
        return connector

    def _process_ended(self) -> None:
        with suppress(pykka.ActorDeadError):  # it was stopped meanwhile
            self.actor_ref.tell(_ProcessEnded())

    def _follow_lag(self) -> None:
        if self._command is not None and self._plugin is not None and self._plugin.type == "sink":
            self._watched = self._watch_lag(self._command.connector, self._epoch, self._resolved)

    def _halt(self) -> None:
        if self._watched is not None:
            self._watched.ended = True
            self._watched = None
        if self._started and self._connector is not None:
            self._started = False
            self._connector.stop()

    def _fail(self, error: Exception) -> None:
        if self._pace is not None and self._pace.ended:
            _logger.info("What the abandoned connector was doing has ended: %s", error)
        else:
            _logger.error("The connector has failed", exc_info=error)
        if self._phase is ConnectorPhase.ENDED:
            self._report(State.FAILED, error)
            self.stop()
        elif self._phase is not ConnectorPhase.FAILED:  # the first failure is the one to show
            self._error = error
            self._handle(ConnectorEvent.FAILURE)

    def _report(self, state: State, error: Exception | None = None) -> None:
        if self._command is None:
            return
        cause = error or self._error
        self._tell(ConnectorStateReported(
            self._command.connector, self._epoch, state,
            trace=trace_of(cause) if state is State.FAILED and cause is not None else None,
            version=self._plugin.version if self._plugin else None,
            stopped_for_good=self._phase is ConnectorPhase.ENDED,
            permanent=state is State.FAILED and cause is not None and is_permanent(cause),
        ))

    def _generate(self, message: GenerateTaskConfigs) -> None:
        if self._command is None:
            return
        name = self._command.connector
        configs: tuple[Config, ...] = ()
        failure: Exception | None = None
        try:
            with plugin_code():
                configs = self._task_configs(name, self._command.config)
        except TooManyTasksError as error:
            self._fail(error)  # before the answer, so that the herder does not try again
            failure = error
        except Exception as error:  # noqa: BLE001  (plugin code; the herder tries again later)
            failure = error
        self._tell(TaskConfigsGenerated(name, self._epoch, message.op, configs, failure))

    def _task_configs(self, name: ConnectorName, raw: Config) -> tuple[Config, ...]:
        if self._phase is not ConnectorPhase.STARTED or self._connector is None or self._plugin is None:
            raise ConnectError(f"Cannot generate task configurations: connector {name} is {self._phase.value}")
        tasks = None if self._watched is None else self._watched.tasks
        return make_task_configs(name, self._connector, self._plugin.name, raw, self._resolved, tasks)


def _check(plugin: Plugin, config: Mapping[str, str], *, topic_creation: bool) -> None:
    """Checks again at the start, as Kafka Connect does: the config topic may contain values that REST would refuse.
    Groups of topic.creation.* are only checked here, so that their connector fails and not all of its tasks.
    """
    sink = plugin.type == "sink"
    (SINK if sink else SOURCE).parse(config)
    if sink and (wrong := topics_error(config)):
        raise ConfigError(wrong)
    if not sink and topic_creation:
        TopicGroups.of(config)
