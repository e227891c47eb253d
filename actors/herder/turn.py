"""One step of the herder in progress: its new state and its effects."""

from __future__ import annotations

import sys
import traceback
from bisect import insort
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from actors.herder.continuations import Continuation
from actors.herder.effects import Effect, Log, Reply, SetTimer, Timer, TimerKey
from actors.herder.instance import Instance
from actors.herder.own_requests import OwnRequest
from actors.herder.patch_state import Patched
from actors.herder.standing import (
    NO_GENERATION,
    Halting,
    Joining,
    Leader,
    Resolved,
    Revoking,
    Standing,
    StatusWrites,
    Syncing,
)
from actors.herder.state import AutomaticRestarts, HerderState, Queued, connector_of
from actors.messages.commands import PutStatus
from actors.messages.correlation_ids import OpId, RequestId
from actors.messages.requests import Request, RequestStage
from spark_tasks.errors import shortened
from storage.ids import ConnectorTaskId, ItemId, State
from storage.status.state import Status, StatusState

MAX_TRACE = 100_000  # characters, each of up to six bytes in JSON: brokers refuse records of more than 1 MB


class Turn:
    """Collects a step's new state and effects. It exists for one step only, and nothing outside the step sees it."""

    __slots__ = ("_own_instances", "changed", "effects", "now", "state", "statuses")

    def __init__(self, state: HerderState, now: int, statuses: StatusState) -> None:
        self.state = state
        self.now = now
        self.statuses = statuses
        self.effects: list[Effect] = []
        self.changed: set[ItemId] = set()
        self._own_instances: dict[ItemId, Instance] | None = None
        if now < state.clock_ms:
            self._set_back(state.clock_ms - now)

    def _set_back(self, by_ms: int) -> None:
        """The clock was set back. Moves all stored times, so that what is left of each delay stays the same."""
        def earlier(queued: Queued) -> Queued:
            until_ms = None if queued.until_ms is None else queued.until_ms - by_ms
            return replace(queued, at_ms=queued.at_ms - by_ms, until_ms=until_ms)

        def before(known: AutomaticRestarts) -> AutomaticRestarts:
            outlook = known.outlook if known.next_ms is None else known.next_ms - by_ms
            return replace(known, outlook=outlook, recent=tuple(at - by_ms for at in known.recent))

        state = self.state
        automatic_restarts = {item: before(known) for item, known in state.automatic_restarts.items()}
        self.state = replace(state, queue=tuple(map(earlier, state.queue)), automatic_restarts=automatic_restarts,
                             validating={id_: earlier(queued) for id_, queued in state.validating.items()})

    def enter(self, standing: Standing) -> None:
        """Changes the standing in the group."""
        self.state = replace(self.state, standing=standing)

    def claim(self, claim: int | None) -> None:
        """Sets the claim to write the config topic, if this worker is the leader."""
        standing = self.state.standing
        if isinstance(standing, Joining | Revoking | Syncing | Resolved | Halting) and isinstance(
            standing.member, Leader
        ):
            self.enter(replace(standing, member=replace(standing.member, claim=claim)))

    def emit(self, *effects: Effect) -> None:
        """Adds effects."""
        self.effects.extend(effects)

    def log(self, level: str, message: str, about: ItemId | None = None) -> None:
        """Logs a line for the operator, with the logger of the module that calls this."""
        caller = sys._getframe(1)  # noqa: SLF001 - as the logging module does
        self.effects.append(Log(level, message, about, caller.f_globals["__name__"], caller.f_lineno))

    def attempt(self, do: Callable[[], None]) -> Exception | None:
        """Does one part of the step. If it raises, its changes are undone, and the error is logged and returned."""
        state, effects = self.state, len(self.effects)
        self._own_instances = None  # those of `state` stay as they are
        try:
            do()
        except Exception as error:  # noqa: BLE001 - any defect concerns this part of the step only
            self.state = state
            del self.effects[effects:]
            self.log("ERROR", "Internal error in the herder:\n" + "".join(traceback.format_exception(error)).rstrip())
            return error
        return None

    def next_number(self) -> int:
        """A number that this herder has not used before: for ops, epochs and the queue."""
        self.state = replace(self.state, counter=self.state.counter + 1)
        return self.state.counter

    def op(self, then: Continuation) -> OpId:
        """Registers the continuation of a new op."""
        op = OpId(self.next_number())
        self.state = replace(self.state, ops={**self.state.ops, op: then})
        return op

    def take_op(self, op: OpId) -> Continuation | None:
        """Removes and returns the continuation of an op that ended; None if the op was abandoned meanwhile."""
        then = self.state.ops.get(op)
        if then is not None:
            ops = dict(self.state.ops)
            del ops[op]
            self.state = replace(self.state, ops=ops)
        if self.state.busy == op:
            self.state = replace(self.state, busy=None)
        return then

    def reply(self, request_id: RequestId | None, value: Any = None, error: Exception | None = None) -> None:
        """Answers a request; does nothing for the herder's own requests."""
        if request_id is not None:
            self.effects.append(Reply(request_id, value, error))

    def enqueue(self, request_id: RequestId | None, request: Request | Patched | OwnRequest, delay_ms: int = 0,
                until_ms: int | None = None) -> None:
        """Adds a request to the queue."""
        queue = list(self.state.queue)
        insort(queue, Queued(self.now + delay_ms, self.next_number(), request_id, request, until_ms))
        self.state = replace(self.state, queue=tuple(queue))
        if delay_ms > 0:
            self.set_queue_timer()

    def set_queue_timer(self) -> None:
        """Sets the timer for the first request that is not due yet."""
        later = [q.at_ms for q in self.state.queue if q.at_ms > self.now]
        if later:
            self.timer((Timer.QUEUE, ""), min(later))

    def timer(self, key: TimerKey, at_ms: int) -> None:
        """Sets a timer."""
        self.effects.append(SetTimer(key, at_ms))

    def stage(self, description: str) -> None:
        """Begins a stage. The errors of requests that time out name the current stage."""
        self.state = replace(self.state, stage=RequestStage(description, self.now))

    def stage_done(self) -> None:
        """The stage is completed."""
        stage = self.state.stage
        if stage is not None and stage.completed_ms is None:
            self.state = replace(self.state, stage=replace(stage, completed_ms=self.now))

    def set_instance(self, item: ItemId, instance: Instance) -> None:
        """Replaces the instance of an item."""
        self._writable_instances()[item] = instance
        self.changed.add(item)

    def update_instances(self, update: Callable[[ItemId, Instance], Instance]) -> None:
        """Replaces the instance of every item."""
        instances = self._writable_instances()
        instances.update({item: update(item, instance) for item, instance in instances.items()})
        self.changed.update(instances)

    def drop_instance(self, item: ItemId) -> Instance:
        """Removes and returns the instance of an item."""
        self.changed.add(item)
        return self._writable_instances().pop(item)

    def _writable_instances(self) -> dict[ItemId, Instance]:
        # A step copies the mapping once, however many instances it starts.
        if self._own_instances is None or self._own_instances is not self.state.instances:
            self._own_instances = dict(self.state.instances)
            self.state = replace(self.state, instances=self._own_instances)
        return self._own_instances

    def exists(self, item: ItemId) -> bool:
        """Whether the item is still configured. If not, the leader removes its status."""
        store, name = self.state.store, connector_of(item)
        return store.contains(name) and not (isinstance(item, ConnectorTaskId) and item.task >= store.task_count(name))

    def status(self, item: ItemId, state: State, trace: str | None = None, version: str | None = None,
               *, disowned: bool = False, first: bool = False) -> None:
        """Writes a status as Kafka Connect does: UNASSIGNED and FAILED only if that is safe. `disowned`: as a worker
        outside the group. `first`: the outcome of a start by a member, which is written even if generations have begun
        again since another worker's status.
        """
        if self.state.status_writes is StatusWrites.SUSPENDED:
            return
        safe = state in (State.UNASSIGNED, State.FAILED) and not (first and self.state.membership is not None)
        generation = NO_GENERATION if disowned else self.state.generation
        known = self.state.automatic_restarts.get(item) if state is not State.UNASSIGNED else None
        instance = self.state.instances.get(item)
        is_current = instance is not None and not instance.stopping and instance.state is state
        stalled = instance.stalled if instance is not None and is_current else None
        trace = trace and shortened(trace, MAX_TRACE)
        status = Status(item, state, self.state.settings.worker_id, generation, trace, version,
                        None if known is None else known.restarts, stalled)
        self.effects.append(PutStatus(status, safe))
