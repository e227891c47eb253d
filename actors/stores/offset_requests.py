"""Reads, alters and resets the offsets of connectors (KIP-875), outside the herder.

The herder has checked before that this worker may do it (leader, connector stopped, no tasks).
"""

from __future__ import annotations

import json
import logging
import re
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

import pykka

from actors.errors import BadRequestError, ConflictError, NotFoundError
from actors.herder.zombie_fencing import transactional_id
from actors.messages.commands import ReadSourceOffsets, WriteSourceOffsets
from actors.messages.replies import answer
from actors.messages.requests import AlterOffsets, GetOffsets
from actors.peers.producer_fencing import ProducerFencing
from spark_tasks.config.client_properties import WorkerClients, client_properties, consumer_group
from spark_tasks.dead_letters.replay.source_progress import check_progress, is_progress
from spark_tasks.errors import ConfigError, ConnectError, plugin_code
from spark_tasks.kafka.admin import KafkaAdmin, OffsetNotChangedError
from spark_tasks.kafka.client_config import client_settings
from spark_tasks.kafka.group_lag import group_lag
from spark_tasks.kafka.task_clients import consumer_settings
from spark_tasks.plugins import Plugins
from spark_tasks.plugins.third_party import CallsHere, MakeCalls, is_third_party
from storage.config.view import ConfigView
from storage.daemon_pool import DaemonPool
from storage.ids import Config, ConnectorName
from storage.offsets.own_topic import OwnOffsets

if TYPE_CHECKING:
    from spark_tasks.plugins.api import AlteredOffsets, SinkConnector, SourceConnector

_logger = logging.getLogger(__name__)

Answer = Callable[[Any, Exception | None], None]

TIMEOUT_S = 60.0
DEADLINE_S = 90.0  # when REST has responded; for the plugin's code
# Clients repeat requests that hang in a plugin; these must not use up the threads of other connectors' requests. Reads
# that clients repeat every few seconds may wait TIMEOUT_S for the offsets topic.
MAX_READS, MAX_CHANGES, MAX_CONCURRENT = 32, 8, 256  # of one connector, and of either kind in total
_OUTSIDE = ("However, if this connector manages offsets externally, they will need to be manually {} in the system "
            "that the connector uses.")
_ZOMBIES = ("If the connector is in a stopped state, this operation can be safely retried. If it doesn't eventually "
            "succeed, the Connect cluster may need to be restarted to get rid of the zombie sink tasks.")


class OffsetRequestSettings(Protocol):
    """The worker's settings that these requests need."""

    @property
    def group_id(self) -> str:
        """The id of the worker group."""

    @property
    def exactly_once(self) -> bool:
        """Whether source tasks write with transactions."""

    @property
    def clients(self) -> WorkerClients:
        """Those for the clients of connectors."""

    def own_offsets(self, connector: Mapping[str, str]) -> OwnOffsets | None:
        """A source connector's own offsets topic; None if its offsets are on the worker's only. Raises ConfigError."""


class OffsetRequests:
    """Each request runs on its own thread; `answer` is called once."""

    def __init__(self, config: OffsetRequestSettings, plugins: Plugins, configs: ConfigView,
                 resolve: Callable[[Config, ConnectorName], Mapping[str, str]],
                 offset_store: pykka.ActorRef[Any], fencing: ProducerFencing, calls: MakeCalls = CallsHere) -> None:
        self._calls = calls
        self._config = config
        self._plugins = plugins
        self._configs = configs
        self._resolve = resolve
        self._store = offset_store
        self._fencing = fencing
        self._pools = {kind: DaemonPool(MAX_CONCURRENT, name) for kind, name in (
            (GetOffsets, "offset-reads"), (AlterOffsets, "offset-changes"))}
        self._begun: dict[tuple[ConnectorName, type[GetOffsets | AlterOffsets]], list[Future[None]]] = {}

    def start(self, request: GetOffsets | AlterOffsets, answer: Answer) -> None:
        """Begins a request; returns at once. Answers ConflictError if too many reads, or changes, of the connector have
        not ended. Used only by the herder's thread. Raises RuntimeError if no thread can be started.
        """
        which = request.connector, type(request)
        self._begun = {known: unfinished for known, begun in self._begun.items()
                       if (unfinished := [one for one in begun if not one.done()])}
        reads = isinstance(request, GetOffsets)
        limit = MAX_READS if reads else MAX_CHANGES
        if len(self._begun.get(which, ())) >= limit:
            kind = "read" if reads else "change"
            answer(None, ConflictError(f"{limit} requests that {kind} the offsets of connector {request.connector} "
                                       "have not ended, perhaps because its plugin or a config provider hangs"))
            return
        self._begun.setdefault(which, []).append(self._pools[type(request)].submit(self._run, request, answer))

    def close(self) -> None:
        """Drops requests that have not begun."""
        for pool in self._pools.values():
            pool.close()

    def _run(self, request: GetOffsets | AlterOffsets, answer: Answer) -> None:
        try:
            with plugin_code():
                value = self._get(request) if isinstance(request, GetOffsets) else self._alter(request)
        except Exception as error:  # noqa: BLE001 - whatever the plugin's alter_offsets raises is the answer
            answer(None, error)
        else:
            answer(value, None)

    def _connector(self, name: ConnectorName) -> tuple[Mapping[str, str], type[Any]]:
        raw = self._configs.config.connector_configs.get(name)
        if raw is None:
            raise NotFoundError(f"Connector {name} not found")
        config = self._resolve(raw, name)
        return config, self._plugins.connector_of(config).cls

    def _is_sink(self, config: Mapping[str, str]) -> bool:
        return self._plugins.connector_type(config) == "sink"

    # ------------------------------------------------------------ reading
    def _get(self, request: GetOffsets) -> list[tuple[Mapping[str, Any], Mapping[str, Any]]]:
        config, _ = self._connector(request.connector)
        if self._is_sink(config):
            with closing(self._admin(config)) as admin:
                committed = admin.group_offsets(self._group(request.connector, config))
            return [({"kafka_topic": topic, "kafka_partition": partition}, {"kafka_offset": offset})
                    for (topic, partition), offset in sorted(committed.items())]
        own = self._config.own_offsets(config)
        return list(self._ask_store(lambda done: ReadSourceOffsets(request.connector, done, own)))

    def _ask_store(self, message: Callable[[Answer], Any]) -> Any:
        future: pykka.ThreadingFuture[Any] = pykka.ThreadingFuture()
        self._store.tell(message(partial(answer, future)))
        try:
            return future.get(timeout=TIMEOUT_S)
        except pykka.Timeout as error:
            raise ConnectError(
                f"No answer from the offsets topic within {TIMEOUT_S:.0f} s: its brokers are unreachable, or an open "
                "transaction on it has to time out first. Try again later; the requested change of offsets may still "
                "take effect until then"
            ) from error

    def lag(self, connector: ConnectorName, config: Mapping[str, str]) -> tuple[int, int]:
        """A sink's total lag in records, and the number of its topics' partitions; `config` is resolved.

        See `group_lag`.
        """
        properties = client_properties(self._config.clients, config, "consumer")
        settings = consumer_settings(connector, 0, config, properties)
        with closing(self._admin(config)) as admin:
            return group_lag(admin, settings)

    # ------------------------------------------------------------ altering
    def _alter(self, request: AlterOffsets) -> str:
        config, plugin = self._connector(request.connector)
        altered = "altered" if request.offsets is not None else "reset"
        if self._is_sink(config):
            elsewhere = self._alter_sink(request, config, plugin)
        else:
            elsewhere = self._alter_source(request, config, plugin)
        _logger.info("Offsets %s on request", altered, extra={"heeler_about": request.connector})
        if elsewhere:
            return f"The offsets for this connector have been {altered} successfully"
        return (f"The Connect framework-managed offsets for this connector have been {altered} successfully. "
                + _OUTSIDE.format(altered))

    def _alter_source(self, request: AlterOffsets, config: Mapping[str, str], plugin: type[SourceConnector]) -> bool:
        own = self._config.own_offsets(config)
        offsets: AlteredOffsets | None = request.offsets
        for partition, offset in offsets or ():
            if is_progress(partition):
                _check_progress(partition, offset)
            elif not plugin.nested_offsets:
                check_source_offset(partition, offset)
        producer = self._fence_former_tasks(request.connector) if self._config.exactly_once else None
        if offsets is None:
            known = self._ask_store(lambda done: ReadSourceOffsets(request.connector, done, own))
            offsets = [(partition, None) for partition, _ in known]
        of_reader = [pair for pair in offsets if not is_progress(pair[0])]
        elsewhere = not of_reader or self._alter_elsewhere(request, plugin, config, of_reader)
        wanted = None
        if request.offsets is not None:  # Java writes a record for a partition of null, too, which nothing reads
            wanted = tuple((partition, offset) for partition, offset in offsets if partition is not None)
        self._ask_store(lambda done: WriteSourceOffsets(request.connector, wanted, done, own, producer))
        return elsewhere

    def _fence_former_tasks(self, name: ConnectorName) -> str:
        """Fences former tasks, so that none overwrites altered offsets. Returns the transactional id for altering."""
        configs = self._configs.config
        ids = [transactional_id(self._config.group_id, name, n) for n in range(configs.task_count_records.get(name, 0))]
        if ids:
            self._fencing.fence(name, configs.connector_configs[name], ids)
        return transactional_id(self._config.group_id, name, 0)

    def _alter_sink(self, request: AlterOffsets, config: Mapping[str, str], plugin: type[SinkConnector]) -> bool:
        group = self._group(request.connector, config)
        with closing(self._admin(config)) as admin:
            if request.offsets is None:
                reset = dict.fromkeys(admin.group_offsets(group))
                elsewhere = self._alter_elsewhere(request, plugin, config, reset)
                try:
                    admin.delete_group(group)
                except OffsetNotChangedError as error:
                    raise ConnectError(f"Failed to reset the consumer group {group}: {error}. {_ZOMBIES}") from error
                return elsewhere
            wanted = dict(sink_offset(*pair) for pair in request.offsets)
            elsewhere = self._alter_elsewhere(request, plugin, config, wanted)
            try:
                admin.alter_group_offsets(group, wanted)
            except OffsetNotChangedError as error:
                raise ConnectError(
                    f"Failed to alter consumer group offsets for connector {request.connector} ({error}) either "
                    "because its tasks haven't stopped completely yet or the resources needed to alter its offsets are "
                    f"not available. {_ZOMBIES}"
                ) from error
        return elsewhere

    def _alter_elsewhere(self, request: AlterOffsets, plugin: type[SourceConnector | SinkConnector],
                         config: Mapping[str, str], offsets: Any) -> bool:
        """Returns whether the connector has altered offsets in the external system."""
        altered: bool
        if is_third_party(plugin.alter_offsets):
            calls = self._calls(request.connector)
            deadline = threading.Timer(DEADLINE_S, calls.kill)  # nobody waits for it any more
            deadline.daemon = True
            deadline.start()
            try:
                altered = calls.call(plugin, plugin.alter_offsets, dict(config), offsets)
            finally:
                deadline.cancel()
        else:
            altered = plugin.alter_offsets(config, offsets)
        return altered

    def _group(self, name: ConnectorName, config: Mapping[str, str]) -> str:
        return consumer_group(name, client_properties(self._config.clients, config, "consumer"))

    def _admin(self, config: Mapping[str, str]) -> KafkaAdmin:
        settings = client_settings(client_properties(self._config.clients, config, "admin"))
        return KafkaAdmin.connect(settings, "reading or changing the consumer group's offsets")


def check_source_offset(partition: Mapping[str, Any] | None, offset: Mapping[str, Any] | None) -> None:
    """Raises ConnectError, with Kafka Connect's messages, for values that its offsets cannot have: lists, maps, and
    integers of more than 64 bits.
    """
    for field, value in (*(partition or {}).items(), *(offset or {}).items()):
        kind = "ARRAY" if isinstance(value, list) else "MAP" if isinstance(value, dict) else None
        if isinstance(value, int) and not -(2**63) <= value < 2**63:
            kind = "class java.math.BigInteger"
        if kind is not None:
            raise ConnectError(f"Offsets may only contain primitive types as values, but field {field} contains {kind}")


def _check_progress(partition: Mapping[str, Any], offset: Mapping[str, Any] | None) -> None:
    try:
        check_progress(partition, offset)
    except ConfigError as error:
        raise BadRequestError(str(error)) from error


def sink_offset(partition: Mapping[str, Any] | None, offset: Mapping[str, Any] | None
                ) -> tuple[tuple[str, int], int | None]:
    """Topic and partition, and the offset (None: remove it), of one item of a request (KIP-875).

    Raises BadRequestError with Kafka Connect's messages, ConnectError for a negative offset.
    """
    if partition is None:
        raise BadRequestError("The partition for a sink connector offset cannot be null or missing")
    if "kafka_topic" not in partition or "kafka_partition" not in partition:
        raise BadRequestError("The partition for a sink connector offset must contain the keys 'kafka_topic' and "
                              "'kafka_partition'")
    if partition["kafka_topic"] is None:
        raise BadRequestError("Kafka topic names must be valid strings and may not be null")
    if partition["kafka_partition"] is None:
        raise BadRequestError("Kafka partitions must be valid numbers and may not be null")
    key = (_text(partition["kafka_topic"]), _integer(partition["kafka_partition"], "partition", bits=32))
    if offset is None:
        return key, None
    if "kafka_offset" not in offset:
        raise BadRequestError("The offset for a sink connector should either be null or contain the key 'kafka_offset'")
    wanted = _integer(offset["kafka_offset"], "offset", bits=64)
    if wanted < 0:
        raise ConnectError(f"Invalid negative offset {wanted} of {key[0]}-{key[1]}: nothing was altered")
    return key, wanted


def _integer(value: Any, what: str, bits: int) -> int:
    text = _text(value)  # both 10 and "10" are numbers here
    if re.fullmatch(r"[+-]?[0-9]{1,19}", text) is None or not -(2 ** (bits - 1)) <= int(text) < 2 ** (bits - 1):
        raise BadRequestError(f"Failed to parse the following Kafka {what} value in the provided offsets: '{text}'. "
                              f"{what.capitalize()} values for sink connectors need to be integers.")
    return int(text)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)
