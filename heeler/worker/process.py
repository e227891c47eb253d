"""One worker process. Start reading here.

`Worker.start` starts all parts in order, `Worker.close` stops them in the reverse order; `run_worker` calls both and
handles the process's signals.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from typing import Any

import pykka

from actors.group.member import GroupMemberActor
from actors.herder.actor import HerderActor, Ports
from actors.herder.effects import MakeSessionKey
from actors.herder.events import HaltRequested, Loaded
from actors.herder.state import HerderState
from actors.instances.connector import ConnectorActor, ConnectorActors
from actors.instances.pooled import ActorThreads
from actors.instances.registry import ActorInstances
from actors.instances.scaler import Scaler
from actors.instances.task import TaskActors
from actors.instances.watchdog import Watchdog
from actors.messages.commands import (
    Decided,
    DeleteTopicStatuses,
    HerderAlive,
    PutSessionKey,
    PutTopicStatus,
    WriteConfig,
)
from actors.messages.events import Remark
from actors.messages.replies import answer
from actors.messages.requests import (
    Ask,
    Request,
    ResetTopics,
    RestartConnectorOnly,
    SetClusterLoggerLevel,
    StoreRequest,
)
from actors.peers.leader_client import LeaderClient
from actors.peers.producer_fencing import ProducerFencing
from actors.peers.start_guard import Peers
from actors.stores.config import ConfigStoreActor
from actors.stores.offset import OffsetStoreActor
from actors.stores.offset_requests import OffsetRequests
from actors.stores.status import StatusStoreActor
from actors.system.supervisor import Supervisor
from actors.system.validation import Validation
from actors.ticker import Ticker
from heeler.worker.config import WorkerConfig
from heeler.worker.data_plane import DataPlane, TaskRunners
from heeler.worker.delegation import Delegation
from heeler.worker.failed_start import log_failure
from heeler.worker.held_interpreter import HeldInterpreter
from heeler.worker.kafka_parts import KafkaParts
from heeler.worker.logs import log_context
from heeler.worker.metrics.registry import WorkerMetrics, queue_length
from heeler.worker.part_settings import (
    group_settings,
    herder_settings,
    new_session_key,
    task_settings,
    validation_settings,
)
from heeler.worker.plugin_facts import PluginFacts
from heeler.worker.providers import close_providers
from heeler.worker.published_view import PublishedView
from heeler.worker.reloads import Resolver
from heeler.worker.signals import stop_on_signals
from heeler.worker.startup import HerderWatch, StoppedError, checked_plugins, in_background, java_runtime, wait_for
from heeler.worker.supervision import Supervision
from heeler.worker.trial_process import Trials
from rest.app import create_admin_app, create_app
from rest.server.listeners import RestServer
from rest.server.settings import RestSettings
from spark_tasks.errors import ConfigError, ConnectError
from spark_tasks.kafka.client_metrics import ClientMetrics, figures
from spark_tasks.process.suspension import process_pulse
from storage.config.view import ConfigView
from storage.ids import Config, ConnectorName, ConnectorTaskId, ItemId, TopicName, WorkerId
from storage.offsets.stores import OffsetStores, OffsetTopic
from storage.status.state import TopicStatus
from storage.status.view import StatusView

_logger = logging.getLogger(__name__)

HALT_GRACE_S = 10.0  # on top of task.shutdown.graceful.timeout.ms
PULSE_MS = 1000


def run_worker(config: WorkerConfig, signalled: threading.Event) -> int:
    """Runs until a signal stops the worker (exit code 0), or until it fails (1). `signalled`: see end_on_signals.
    Raises ConfigError.
    """
    worker = Worker(config)
    stop_on_signals(worker.halt)
    try:
        if not signalled.is_set():
            worker.start()
            with HeldInterpreter() as held:
                worker.herder_watch.wait_for_stop(worker.halting, held.beat)
            worker.wait_halted()
    except StoppedError:  # by a signal, or because a part died
        _logger.info("heeler worker stopped before it had started")
    except ConnectError as error:
        if isinstance(error, ConfigError) and not worker.started:
            raise
        log_failure(error, started=worker.started)
        return 1
    finally:
        worker.close()
    return 1 if worker.failed else 0


def stop_actor(ref: pykka.ActorRef[Any], seconds: float = 5) -> None:
    """Stops an actor; if it takes longer, only logs that, so that all other parts are stopped too."""
    try:
        ref.stop(timeout=seconds)
    except pykka.Timeout:
        _logger.warning("%s did not stop within %.0f s", ref.actor_class.__name__, seconds)


class Worker:
    """Owns every part of the process."""

    def __init__(self, config: WorkerConfig) -> None:
        self.config = config
        self.halting = threading.Event()
        self.failed = False
        self.started = False
        self._halted = threading.Event()
        self._cleanup = ExitStack()
        self._ticker = Ticker()
        self.herder_watch = HerderWatch(self.fail, config["rebalance.timeout.ms"] / 1000)
        self._java = java_runtime(config)
        self._cleanup.callback(self._java.close)
        self._cleanup.callback(close_providers, config.providers)
        self._plugins = checked_plugins(config, self._java)
        self._configs, self._statuses = ConfigView(), StatusView()
        # Only the worker that runs the connector accepts this request; each worker that used the value sends it.
        self.resolve = Resolver(config.providers, self._ticker, lambda name: self.ask(RestartConnectorOnly(name)))
        trials = Trials(config.originals, config.providers)
        self._facts = PluginFacts(self._plugins)
        self._supervision = Supervision(config.values)
        self.view = PublishedView(self._configs, self._statuses, self._facts, trials)
        self.metrics = WorkerMetrics(config.originals, lambda: self._configs.config, lambda: self._statuses.statuses,
                                     self._facts, self.view.heeler_version)
        self.metrics.providers = self._java.figures
        self.metrics.app_info = {"version": self.view.version, "commit-id": self.view.commit}
        self.view.metrics = self.metrics.page
        self._core: dict[str, pykka.ActorRef[Any]] = {}
        self._herder: pykka.ActorRef[Any] | None = None
        self._stores: dict[str, pykka.ActorRef[Any]] = {}
        self.rest: RestServer

    # ------------------------------------------------------------ start and end
    def start(self) -> None:
        """Starts REST, then connects to Kafka, starts the stores and the herder and joins the group; the data plane
        starts in the background.
        """
        self.view.recent_logs.install()
        self._ticker.start()
        self._cleanup.callback(self._ticker.stop)
        self.rest = self._start_rest()
        self.metrics.worker_id = WorkerId(self.rest.worker_id)
        parts = wait_for(in_background(lambda: KafkaParts.connect(self.config)), self.halting)
        self._cleanup.callback(parts.close)
        self._java.on_host_end(self._java_host_ended)
        self.view.loggers.follower = self._java.set_level
        data_plane = DataPlane(self.config, self._plugins, self._tell_herder)
        self._cleanup.callback(data_plane.close)
        data_plane.start_engine()
        data_plane.start()
        self._start_stores(parts)
        self._start_herder(parts, data_plane)
        self._await_stores()
        self.view.kafka_cluster_id = parts.cluster_id
        self._tell_herder(Loaded(self._configs.config))
        self.metrics.engine, self.metrics.queues = data_plane.figures, self._queues
        self.started = True
        _logger.info("heeler worker %s of group %s started: version %s, Kafka cluster %s at %s", self.rest.worker_id,
                     self.config.group_id, self.view.heeler_version, parts.cluster_id, self.config.bootstrap_servers)

    def halt(self, reason: str) -> None:
        """Begins an orderly stop. Any thread, any number of times."""
        if not self.halting.is_set():
            self.halting.set()
            _logger.info("Stopping: %s", reason)
            threading.Thread(target=self._halt, args=(reason,), name="halt", daemon=True).start()

    def _halt(self, reason: str) -> None:
        if hasattr(self, "rest"):
            self.rest.refuse()
        if self._herder is None or not self._herder.is_alive():
            self._halted.set()
        else:
            self._tell_herder(HaltRequested(reason))

    def wait_halted(self) -> None:
        """Waits until connectors and tasks are stopped and their statuses written, or until that takes too long."""
        grace = self.config["task.shutdown.graceful.timeout.ms"] / 1000 + HALT_GRACE_S
        if not self._halted.wait(grace):
            _logger.error("The worker did not stop cleanly within %.0f s", grace)
            self.failed = True

    def close(self) -> None:
        """Stops all parts, in the reverse order of their start."""
        self._cleanup.close()
        if self.started:
            _logger.info("heeler worker stopped")

    def fail(self, reason: str) -> None:
        """A part that the worker cannot run without has died."""
        _logger.error("%s; stopping the worker", reason)
        self.failed = True
        self.halt(reason)

    # ------------------------------------------------------------ the parts
    def _start_rest(self) -> RestServer:
        settings = RestSettings.of(self.config.values, self.config.originals)
        server = RestServer(settings, create_app(self.ask, self.view, settings),
                            create_admin_app(self.ask, self.view, settings))
        server.start()
        self._cleanup.callback(server.stop)
        return server

    def _start_stores(self, parts: KafkaParts) -> None:
        # A task that died leaves a transaction open on the offsets topic until its timeout, and readers wait for that.
        timeout = 100.0 if self.config.exactly_once else 30.0
        self._offsets = OffsetStores(OffsetTopic(parts.log("offset")), parts.connector_offsets_log, timeout=timeout)
        self._offsets_ready: Future[None] = Future()
        self._stores = {
            "config": ConfigStoreActor.start(parts.log("config"), self._tell_herder, self._configs, self._ticker,
                                             parts.config_writer()),
            "status": StatusStoreActor.start(parts.log("status"), self._tell_herder, self._statuses, self._ticker),
            "offset": OffsetStoreActor.start(self._offsets, parts.offsets_writer, self._offsets_ready),
        }
        for store in self._stores.values():
            self._cleanup.callback(stop_actor, store)

    def _await_stores(self) -> None:
        for name, ready in (("config", self._configs.ready), ("status", self._statuses.ready),
                            ("offset", self._offsets_ready)):
            topic = self.config[f"{name}.storage.topic"]
            wait_for(ready, self.halting, partial(
                _logger.warning, "The %s topic %s has not been read to its end yet; the worker starts after that",
                name, topic))

    def _start_herder(self, parts: KafkaParts, data_plane: DataPlane) -> None:
        config = self.config
        leader = LeaderClient(self._tell_herder, config["inter.worker.signature.algorithm"], self.rest.client_tls)
        fencing = ProducerFencing(config.clients, self.resolve, self._tell_herder, self._ticker)
        make = TaskRunners(config, task_settings(config), self._plugins, data_plane, self._offsets, self._configs,
                           self.resolve, self._topic_used, Peers(self._tell_herder, leader, self._configs),
                           self.metrics.task).make
        watched = self._start_watchdog(data_plane)
        tasks = TaskActors(self._tell_herder, make, self._ticker, lambda task: log_context(task.connector, task.task),
                           *watched, data_plane.release)
        offset_requests = OffsetRequests(config, self._plugins, self._configs, self.resolve, self._stores["offset"],
                                         fencing, data_plane.calls)
        scaler = self._start_scaler(offset_requests)
        threads, creates = ActorThreads(), config["topic.creation.enable"]
        connectors = ConnectorActors(lambda epoch, made, pace: ConnectorActor.start(
            epoch, self._tell_herder, self._plugins, self.resolve,
            lambda name, its: self._offsets.read(name, config.own_offsets(its)), log_context, self.metrics.connector,
            scaler.watch, threads=threads, topic_creation=creates, made=made, pace=pace,
            make_instance=data_plane.connector), scaler.abandon, *watched)

        def cancel(ref: pykka.ActorRef[Any]) -> None:
            tasks.cancel(ref)
            connectors.cancel(ref)

        self._instances = ActorInstances(self._tell_herder, connectors.start, tasks.start, cancel, tasks.stopping,
                                         lambda ref: tasks.where(ref) or connectors.where(ref))
        validation = Validation(self._plugins, validation_settings(config), self.resolve, self._ticker,
                                calls=data_plane.calls)
        delegation = Delegation(validation, offset_requests, self._instances, self._tell_herder)
        for part in (offset_requests, leader, fencing):
            self._cleanup.callback(part.close)
        member = self._start_member(parts)
        ports = Ports(
            config_store=self._stores["config"].tell,
            status_store=self._stores["status"].tell,
            member=self.herder_watch.counting(member.tell),
            instances=self._instances,
            validate=delegation.validate,
            delegate=delegation.start,
            send_task_configs=leader.send,
            fence_producers=fencing.start,
            make_session_key=self._make_session_key,
            forget_topics=lambda effect: self._stores["status"].tell(DeleteTopicStatuses(effect.connector)),
            set_logger_level=lambda effect: self.view.loggers.follow_cluster(effect.namespace, effect.level),
            statuses=lambda: self._statuses.statuses,
            publish=lambda state: self._publish(state, leader),
            pulse=process_pulse(),
            halted=self._halted.set,
            failed=self.fail,
        )
        settings = herder_settings(config, self.rest.worker_id, partial(self._facts.connector_type, waits=False),
                                   self._supervision.restart_policy)
        self._herder = herder = HerderActor.start(settings, ports, self._ticker)
        self._cleanup.callback(stop_actor, herder)
        self._core = {"herder": herder, "group member": member, **{f"{k} store": v for k, v in self._stores.items()}}
        self._watch(self._core, threads.retry)

    def _start_watchdog(self, data_plane: DataPlane) -> tuple[Watchdog, Callable[[Config], float]]:
        watchdog = Watchdog(self._tell_herder, data_plane.where)
        self._ticker.every("watchdog", PULSE_MS, watchdog.check)
        self._cleanup.callback(self._ticker.cancel, "watchdog")
        self.view.degraded = lambda: [*watchdog.degraded(), *data_plane.degraded()]
        self.view.waiting = watchdog.waiting
        self.metrics.stalled = watchdog.stalled
        return watchdog, self._supervision.progress_s

    def _start_scaler(self, offset_requests: OffsetRequests) -> Scaler:
        scaler = Scaler(self._tell_herder, offset_requests.lag,
                        lambda name: self._configs.config.task_count(name))  # noqa: PLW0108 - as it is then
        self._ticker.every("scaler", PULSE_MS, scaler.check)
        self._cleanup.callback(self._ticker.cancel, "scaler")
        self.metrics.scaling = scaler.figures
        return scaler

    def _watch(self, core: Mapping[str, pykka.ActorRef[Any]], start_threads: Callable[[], None]) -> None:
        supervisor = Supervisor(core, self._instances, start_threads, self.fail, self.halting.is_set)
        for key, alarm in (("supervisor", supervisor.check), ("pulse", lambda: self._tell_herder(HerderAlive()))):
            self._ticker.every(key, PULSE_MS, alarm)
            self._cleanup.callback(self._ticker.cancel, key)

    def _start_member(self, parts: KafkaParts) -> pykka.ActorRef[Any]:
        counted = ClientMetrics()
        client = {**parts.settings, "client_id": parts.client_id}
        settings = replace(group_settings(self.config, self.rest.advertised_url, client), metrics=counted)
        self.metrics.client_id, self.metrics.client = parts.client_id, lambda: figures(counted)
        member = GroupMemberActor.start(settings, lambda: self._configs.config, self._tell_herder)
        self._cleanup.callback(stop_actor, member, 10)
        return member

    # ------------------------------------------------------------ called by the parts
    def ask(self, request: Request | StoreRequest, wait_ms: int | None = None) -> pykka.Future[Any]:
        """Passes a request to the actor that handles it; the future is always completed."""
        reply: pykka.ThreadingFuture[Any] = pykka.ThreadingFuture()
        target = self._herder
        if isinstance(request, ResetTopics):
            target = self._stores.get("status")
        elif isinstance(request, SetClusterLoggerLevel):
            target = self._stores.get("config")
        try:
            if target is not None:
                target.tell(Ask(request, reply, wait_ms))  # type: ignore[arg-type]
        except pykka.ActorDeadError:
            target = None
        if target is None:
            why = ConnectError("Worker is shutting down" if self.halting.is_set() else "Worker is still starting up")
            answer(reply, error=why)
        return reply

    def _tell_herder(self, message: Any) -> None:
        herder = self._herder
        if herder is not None:
            try:
                herder.tell(message)
            except pykka.ActorDeadError:
                _logger.debug("The herder has ended; %s is dropped", type(message).__name__)

    def _java_host_ended(self, connector: str, item: str, what: str) -> None:
        name = ConnectorName(connector)
        task = int(item.removeprefix(f"{connector}-")) if item != connector else None
        self._tell_herder(Remark(name if task is None else ConnectorTaskId(name, task), what, "Java plugins"))

    def _publish(self, state: HerderState, leader: LeaderClient) -> None:
        self.view.follow(state)
        self.metrics.follow(state)
        leader.follow(state.leader_url)

    def _queues(self) -> tuple[dict[str, int], dict[ItemId, int]]:
        core = {name: queue_length(ref) for name, ref in self._core.items()}
        return core, {item: queue_length(ref) for item, ref in self._instances.living()}

    def _make_session_key(self, effect: MakeSessionKey) -> None:
        key = new_session_key(self.config, self._ticker.now_ms())
        write = WriteConfig(effect.op, PutSessionKey(key))
        self._stores["config"].tell(Decided(write, process_pulse().beat()))

    def _topic_used(self, task: ConnectorTaskId, topic: TopicName) -> None:
        if topic in self._statuses.statuses.topics.get(task.connector, ()):
            return
        if self.config["topic.tracking.enable"] and self._configs.config.contains(task.connector):
            used = TopicStatus(topic, task.connector, task.task, self._ticker.now_ms())
            self._stores["status"].tell(PutTopicStatus(used))
