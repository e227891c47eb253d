"""The herder actor: turns messages into events and effects into calls, and keeps the futures of requests.

All decisions are made in core.py. Everything here runs in the actor's own thread; what it calls must not block.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Protocol, assert_never

import pykka
from typing_extensions import override

from actors.errors import NotFoundError
from actors.herder import core
from actors.herder.effects import (
    AbandonInstance,
    AskTaskConfigs,
    CancelTimer,
    ChangeInstance,
    Delegate,
    DelegatedEffect,
    Effect,
    EndWorker,
    FenceProducers,
    ForgetTopics,
    InstanceEffect,
    Log,
    MakeSessionKey,
    MemberEffect,
    Reply,
    SendTaskConfigs,
    SetLoggerLevel,
    SetTimer,
    StartInstance,
    StopInstance,
    TimerKey,
    Validate,
)
from actors.herder.events import (
    Event,
    Payload,
    ProducersFenced,
    RequestReceived,
    Suspended,
    TaskConfigsPublished,
    TimerFired,
    Validated,
)
from actors.herder.state import HerderSettings, HerderState
from actors.herder.story import Story
from actors.herder.table import UnexpectedEventError
from actors.messages.commands import (
    AllowJoin,
    ClaimWritePrivileges,
    Decided,
    FlushStatuses,
    HerderAlive,
    JoinGroup,
    LeaveGroup,
    PutStatus,
    ReadConfigToEnd,
    ReadStatuses,
    RequestRejoin,
    WriteConfig,
)
from actors.messages.correlation_ids import Epoch, RequestId
from actors.messages.events import ConnectorStateReported, Remark, TaskStateReported
from actors.messages.replies import answer
from actors.messages.requests import Ask, GetStory
from actors.ticker import Ticker
from spark_tasks.config.masking import process_secrets
from spark_tasks.errors import ConnectError
from spark_tasks.process.suspension import Pulse
from storage.ids import ConnectorName
from storage.status.state import StatusState

_logger = logging.getLogger(__name__)


class Instances(Protocol):
    """Starts and stops the actors of connectors and tasks, which report to the herder."""

    def start(self, effect: StartInstance) -> None:
        """Starts an actor."""

    def stop(self, effect: StopInstance) -> None:
        """Stops an actor gracefully."""

    def abandon(self, effect: AbandonInstance) -> None:
        """Cancels and forgets an actor."""

    def change(self, effect: ChangeInstance) -> None:
        """Sends an actor its new target state."""

    def ask_task_configs(self, effect: AskTaskConfigs) -> None:
        """Asks a connector's actor for task configs."""

    def ended(self, epoch: Epoch) -> None:
        """Forgets an instance after its last report."""


@dataclass(frozen=True, slots=True)
class Ports:
    """Functions that carry out the herder's effects. None of them blocks; each reports its outcome to the herder."""

    config_store: Callable[[Decided | ReadConfigToEnd | ClaimWritePrivileges], None]
    status_store: Callable[[Decided | FlushStatuses | ReadStatuses], None]
    member: Callable[[MemberEffect | HerderAlive], None]
    instances: Instances
    validate: Callable[[Validate], None]
    delegate: Callable[[Delegate, Callable[[Any, Exception | None], None]], None]
    send_task_configs: Callable[[SendTaskConfigs], None]
    fence_producers: Callable[[FenceProducers], None]
    make_session_key: Callable[[MakeSessionKey], None]
    forget_topics: Callable[[ForgetTopics], None]
    set_logger_level: Callable[[SetLoggerLevel], object]
    statuses: Callable[[], StatusState]
    publish: Callable[[HerderState], None]
    pulse: Pulse  # of this process
    halted: Callable[[], None]
    failed: Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Delegated:
    """The answer of another actor to a delegated request."""

    request_id: RequestId
    value: Any
    error: Exception | None


def _log(effect: Log, cause: str) -> None:
    """Logs a line of the core as its handler would: so each module has its level, and the line tells where to read."""
    logger, level = logging.getLogger(effect.logger), logging.getLevelNamesMapping()[effect.level]
    if logger.isEnabledFor(level):
        # The lines below the first are a stack trace. Masked before the split: a secret may span several lines.
        line, _, below = process_secrets().mask(effect.message).partition("\n")
        logger.handle(logger.makeRecord(logger.name, level, "", effect.line, "%s [%s]", (line, cause), None,
                                        extra={"heeler_about": effect.about, "below": below}))


def _failed(effect: Effect, error: Exception) -> Delegated | Payload | None:
    """The outcome of an effect that could not be carried out, for example because no thread could be started; None if
    its outcome cannot be an error.
    """
    match effect:
        case Delegate(request_id):
            return Delegated(request_id, None, error)
        case Validate(request_id):
            return Validated(request_id, error)
        case SendTaskConfigs(op):
            return TaskConfigsPublished(op, error)
        case FenceProducers(op):
            return ProducersFenced(op, error)
        case _:
            return None


class HerderActor(pykka.ThreadingActor):
    """Serializes every change of the worker's state."""

    use_daemon_thread = True  # a herder that hangs does not keep the worker from ending

    def __init__(self, settings: HerderSettings, ports: Ports, ticker: Ticker) -> None:
        super().__init__()
        self._state = HerderState(settings)
        self._ports = ports
        self._ticker = ticker
        self._story = Story(mask=process_secrets().mask)
        self._replies: dict[RequestId, Any] = {}
        self._numbers = itertools.count(1)
        self._received_at = ports.pulse.beat()

    @override
    def on_receive(self, message: Any) -> Any:
        """Handles an Ask, an event's payload, or a Remark."""
        self._notice_suspension()
        match message:
            case Ask():
                self._receive_request(message)
            case Delegated(request_id, value, error):
                self._reply(Reply(request_id, value, error))
            case HerderAlive():
                self._ports.member(message)  # it goes through this inbox, so that none arrives if the herder hangs
            case ConnectorStateReported() | TaskStateReported() if message.stopped_for_good:
                self._ports.instances.ended(message.epoch)
                self._handle(message)
            case Remark():
                self._story.note(self._ticker.now_ms(), f"Remark#{next(self._numbers)}", message)
            case _:
                self._handle(message)
        return None

    def _notice_suspension(self) -> None:
        # Called before each message, so that the membership counts as lost before older messages are handled.
        before, self._received_at = self._received_at, self._ports.pulse.beat()
        silent_ms = self._ports.pulse.longest_gap_since(before) * 1000
        if silent_ms > self._state.settings.session_timeout_ms:
            self._handle(Suspended(int(silent_ms)))

    @override
    def on_stop(self) -> None:
        """Fails all requests that still wait for a reply."""
        self._fail_replies()

    @override
    def on_failure(self, *_: Any) -> None:
        """Fails all requests: Pykka does not complete our futures when an actor dies."""
        self._fail_replies()

    def _fail_replies(self) -> None:
        replies = [*self._replies.values(), *self._unread()]
        self._replies.clear()
        for reply in replies:
            answer(reply, error=ConnectError("Worker is shutting down"))

    def _unread(self) -> list[Any]:
        """Takes requests out of the inbox and returns their futures; Pykka completes the futures of other messages."""
        envelopes = []
        while not self.actor_inbox.empty():
            envelopes.append(self.actor_inbox.get())
        for envelope in envelopes:
            if not isinstance(envelope.message, Ask):
                self.actor_inbox.put(envelope)
        return [envelope.message.reply for envelope in envelopes if isinstance(envelope.message, Ask)]

    def _handle(self, payload: Payload) -> None:
        cause = f"{type(payload).__name__}#{next(self._numbers)}"
        event = Event(payload, self._ticker.now_ms(), self._ports.statuses(), cause)
        try:
            self._state, effects = core.step(self._state, event)
        except Exception as error:
            _logger.exception("Internal error while handling %s", cause)
            for line in self._story.text(last=20).split("\n"):
                _logger.error("Recent events: %s", line)  # noqa: TRY400 - the trace is above
            if isinstance(payload, RequestReceived):
                self._reply(Reply(payload.request_id, error=error))
            if not isinstance(error, UnexpectedEventError):
                self._fail(error)
            return
        because = self._story.add(event, effects)
        because_of = f" because of {because}" if because else ""
        self._ports.publish(self._state)
        for effect in effects:
            if not isinstance(effect, Log):
                _logger.debug("%s%s -> %s", cause, because_of, type(effect).__name__)
            try:
                self._carry_out(effect, cause)
            except Exception as error:
                _logger.exception("Internal error: could not carry out %s of %s", type(effect).__name__, cause)
                outcome = _failed(effect, error)
                if outcome is None:
                    self._fail(error)
                else:
                    self.actor_ref.tell(outcome)

    def _fail(self, error: Exception) -> None:
        # The state is valid, but requests that wait for this effect might wait forever. Stopping is still possible.
        self._ports.failed(f"The herder cannot continue after an internal error ({type(error).__name__}: {error})")

    def _carry_out(self, effect: Effect, cause: str) -> None:
        match effect:
            case Reply():
                self._reply(effect)
            case Log():
                _log(effect, cause)
            case SetTimer(key, at_ms):
                self._ticker.set((self.actor_urn, key), at_ms, lambda: self._timer_fired(key))
            case CancelTimer(key):
                self._ticker.cancel((self.actor_urn, key))
            case EndWorker():
                self._ports.halted()
            case StartInstance() | StopInstance() | AbandonInstance() | ChangeInstance() | AskTaskConfigs():
                self._control_instance(effect)
            case WriteConfig():
                self._ports.config_store(Decided(effect, self._received_at))
            case ReadConfigToEnd() | ClaimWritePrivileges():
                self._ports.config_store(effect)
            case JoinGroup() | AllowJoin() | RequestRejoin() | LeaveGroup():
                self._ports.member(effect)
            case PutStatus():
                self._ports.status_store(Decided(effect, self._received_at))
            case FlushStatuses() | ReadStatuses():
                self._ports.status_store(effect)
            case _:
                self._delegate(effect)

    def _control_instance(self, effect: InstanceEffect) -> None:
        instances = self._ports.instances
        match effect:
            case StartInstance():
                instances.start(effect)
            case StopInstance():
                instances.stop(effect)
            case AbandonInstance():
                instances.abandon(effect)
            case ChangeInstance():
                instances.change(effect)
            case AskTaskConfigs():
                instances.ask_task_configs(effect)
            case _:
                assert_never(effect)

    def _delegate(self, effect: DelegatedEffect) -> None:
        ports = self._ports
        match effect:
            case Delegate(request_id):
                ports.delegate(effect, lambda value, error: self._answer(request_id, value, error))
            case Validate():
                ports.validate(effect)
            case SendTaskConfigs():
                ports.send_task_configs(effect)
            case FenceProducers():
                ports.fence_producers(effect)
            case MakeSessionKey():
                ports.make_session_key(effect)
            case ForgetTopics():
                ports.forget_topics(effect)
            case SetLoggerLevel():
                ports.set_logger_level(effect)
            case _:
                assert_never(effect)

    def _receive_request(self, ask: Ask) -> None:
        if isinstance(ask.request, GetStory):
            self._answer_story(ask.request.connector, ask.reply)
            return
        request_id = RequestId(next(self._numbers))
        self._replies[request_id] = ask.reply
        self._handle(RequestReceived(request_id, ask.request, ask.wait_ms))

    def _answer_story(self, connector: ConnectorName, reply: Any) -> None:
        try:
            story = self._story.of(connector)
            if not story and not self._state.store.contains(connector):
                raise NotFoundError(f"Connector {connector} not found")  # noqa: TRY301 - as any answer
        except Exception as error:  # noqa: BLE001 - any error is the answer
            answer(reply, error=error)
        else:
            answer(reply, story)

    def _answer(self, request_id: RequestId, value: Any, error: Exception | None) -> None:
        # Called on any thread: the futures belong to this actor's thread, so the result goes through the inbox.
        self.actor_ref.tell(Delegated(request_id, value, error))

    def _timer_fired(self, key: TimerKey) -> None:
        with suppress(pykka.ActorDeadError):  # the worker has stopped meanwhile
            self.actor_ref.tell(TimerFired(key))

    def _reply(self, effect: Reply) -> None:
        reply = self._replies.pop(effect.request_id, None)
        if reply is not None:
            answer(reply, effect.value, effect.error)
