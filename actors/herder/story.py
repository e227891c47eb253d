"""The recent events of a herder and their causes, for its log and for `GET /connectors/{name}/story`."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from enum import Enum
from itertools import islice

from actors.herder.effects import CancelTimer, Delegate, Effect, Log, Reply, SetTimer
from actors.herder.events import Event, RequestReceived, TimerFired
from actors.messages.commands import AllowJoin, JoinGroup, RequestRejoin
from actors.messages.events import InstanceStalled, Joined, JoinPreparing, Remark
from actors.messages.requests import (
    GetConnector,
    GetOffsets,
    GetTaskConfigs,
    HealthCheck,
    ReplayDeadLetters,
    StoryEntry,
    ValidateConfig,
)
from storage.config.state import ClusterConfigState
from storage.ids import ConnectorName, ConnectorTaskId
from storage.status.state import Stall

LENGTH = 2000  # steps
WIDTH = 300  # characters of an event or an effect
REMARK_WIDTH = 10_000
SHOWN = 5  # elements of a collection
_PENDING = 10_000  # the most origins that are kept until their outcomes arrive
Mask = Callable[[str], str]


# ---------------------------------------------------------------- texts
def describe(value: object) -> str:
    """Like repr, but without long or secret parts: configurations, snapshots, keys."""
    match value:
        case ClusterConfigState():
            text = f"<configs at offset {value.offset}>"
        case Mapping():
            text = f"{{{len(value)} keys}}"
        case bytes():
            text = f"<{len(value)} bytes>"
        case Enum():
            text = str(value.value)
        case Stall():
            text = repr(replace(value, what=value.what.partition("\n")[0]))
        case ConnectorTaskId() | str():
            text = repr(str(value))
        case int() | float() | None:
            text = repr(value)
        case Exception():
            text = f"{type(value).__name__}({str(value)!r})"
        case tuple() | list() | frozenset() | set():
            some = [describe(each) for each in islice(value, SHOWN)]
            text = f"[{', '.join(some)}{f', … {len(value)} in all' if len(value) > SHOWN else ''}]"
        case _ if is_dataclass(value) and not isinstance(value, type):
            shown = (field.name for field in fields(value) if field.repr)
            text = f"{type(value).__name__}({', '.join(f'{name}={describe(getattr(value, name))}' for name in shown)})"
        case _:
            text = f"<{type(value).__name__}>"
    return text


def _described(payload: object, mask: Mask) -> str:
    """An event in one line. For a stall, the stack trace of where it hangs follows."""
    if isinstance(payload, InstanceStalled):
        return _cut(mask(f"{type(payload).__name__}, {payload.item}: {payload.what}"), REMARK_WIDTH)
    return _cut(mask(describe(payload)))


def _effect(effect: Effect, mask: Mask) -> str:
    """An effect in one line; for a Log, the first line of its message."""
    if isinstance(effect, Log):
        effect = replace(effect, message=mask(effect.message).partition("\n")[0])
    return _cut(mask(describe(effect)))


def _cut(text: str, width: int = WIDTH) -> str:
    return text if len(text) <= width else text[: width - 3] + "..."


# ---------------------------------------------------------------- the connectors that something concerns
_NAMES = ("connector", "item", "id", "about")  # fields that hold a connector's name or a task
_PARTS = (*_NAMES, "task", "request", "command", "write", "status", "reconfigure", "changes")


def subjects(value: object) -> frozenset[ConnectorName]:
    """The connectors that an event or an effect names in its fields."""
    if isinstance(value, ConnectorTaskId):
        return frozenset((value.connector,))
    if isinstance(value, tuple):
        return frozenset().union(*map(subjects, value))
    names: set[ConnectorName] = set()
    if is_dataclass(value):
        for part in _PARTS:
            inner = getattr(value, part, None)
            if isinstance(inner, str):
                names |= {ConnectorName(inner)} if part in _NAMES else set()
            elif inner is not None:
                names |= subjects(inner)
    return frozenset(names)


# ---------------------------------------------------------------- causes
@dataclass(frozen=True, slots=True)
class Origin:
    """The step that caused something, and the connectors that it concerns."""

    cause: str
    about: frozenset[ConnectorName] = frozenset()


class Origins:
    """Finds the step that caused an event."""

    def __init__(self) -> None:
        self._pending: dict[object, Origin] = {}

    def of(self, payload: object) -> Origin | None:
        """The step that caused this event; None if no step of this herder did."""
        match payload:
            case TimerFired(key):
                return self._pending.pop(("timer", key), None)
            case JoinPreparing():
                return self._pending.pop("join", None)
            case Joined():
                return self._pending.pop("allowed join", None)
            case _:
                return self._of_number(payload)

    def _of_number(self, payload: object) -> Origin | None:
        for name in ("op", "epoch", "request_id"):
            number = getattr(payload, name, None)
            if number is not None and (name, number) in self._pending:
                ended = name == "op" or getattr(payload, "stopped_for_good", False)
                return self._pending.pop((name, number)) if ended else self._pending[name, number]
        return None

    def remember(self, cause: str, event: object, about: frozenset[ConnectorName], effects: Iterable[Effect]) -> None:
        """Remembers a step as the origin of the outcomes of its effects."""
        if isinstance(event, RequestReceived):
            self._pending["request_id", event.request_id] = Origin(cause, about)
        for effect in effects:
            match effect:
                case Reply(request_id):
                    self._pending.pop(("request_id", request_id), None)
                case CancelTimer(key):
                    self._pending.pop(("timer", key), None)
                case SetTimer(key):
                    self._pending["timer", key] = Origin(cause, about)
                case JoinGroup() | RequestRejoin():
                    self._pending["join"] = Origin(cause)
                case AllowJoin():
                    self._pending["allowed join"] = Origin(cause)
                case _:
                    for name in ("op", "epoch"):
                        if (number := getattr(effect, name, None)) is not None:
                            self._pending[name, number] = Origin(cause, subjects(effect) or about)
        while len(self._pending) > _PENDING:
            del self._pending[next(iter(self._pending))]

    def about(self, effect: Effect) -> frozenset[ConnectorName]:
        """The connectors that an effect concerns; empty if it concerns none, or all."""
        if isinstance(effect, Reply):
            origin = self._pending.get(("request_id", effect.request_id))
            return origin.about if origin is not None else frozenset()
        return subjects(effect)


# ---------------------------------------------------------------- the story
def _only_reads(payload: object, effects: tuple[Effect, ...]) -> bool:
    """Whether a step serves a request that changes nothing. These are not recorded: a client that polls would push out
    everything else.
    """
    match payload:
        case RequestReceived(request=ReplayDeadLetters(order=order)) if order is not None:
            return False
        case RequestReceived(request=GetConnector() | GetTaskConfigs() | GetOffsets() | HealthCheck()
                             | ValidateConfig() | ReplayDeadLetters()):
            return all(isinstance(effect, Reply | Delegate) for effect in effects)
        case _:
            return False


@dataclass(frozen=True, slots=True)
class RecordedStep:
    """One step: the event, its cause, its effects, and the connectors that the event and each effect concern."""

    event: Event
    effects: tuple[Effect, ...]
    because: str | None = None
    about: frozenset[ConnectorName] = frozenset()
    effects_about: tuple[frozenset[ConnectorName], ...] = ()

    def shown(self, connector: ConnectorName | None) -> tuple[Effect, ...] | None:
        """The effects that concern a connector (all for None); None if nothing in the step does."""
        if connector is None:
            return self.effects
        if connector not in self.about and not any(connector in about for about in self.effects_about):
            return None
        return tuple(effect for effect, about in zip(self.effects, self.effects_about, strict=True)
                     if connector in about or not about)

    def entry(self, connector: ConnectorName | None = None, mask: Mask = str) -> StoryEntry | None:
        """The step for the story, or None if it does not concern the connector; long texts are cut after masking."""
        effects = self.shown(connector)
        if effects is None:
            return None
        event = self.event
        return StoryEntry(event.now_ms, event.cause, self.because, _described(event.payload, mask),
                          tuple(_effect(effect, mask) for effect in effects))

    def lines(self, connector: ConnectorName | None = None, mask: Mask = str) -> list[str]:
        """The entry as lines of text; none if it does not concern the connector."""
        return _lines(self.entry(connector, mask))


@dataclass(frozen=True, slots=True)
class RecordedRemark:
    """A remark of another part of the worker."""

    at_ms: int
    cause: str
    remark: Remark

    def entry(self, connector: ConnectorName | None = None, mask: Mask = str) -> StoryEntry | None:
        """The entry, or None if it does not concern the connector; `mask` hides secrets in its text."""
        if connector is not None and connector not in subjects(self.remark):
            return None
        text = f"{self.remark.source}, {self.remark.item}: {self.remark.what}"
        return StoryEntry(self.at_ms, self.cause, None, _cut(mask(text), REMARK_WIDTH), ())


def _lines(entry: StoryEntry | None) -> list[str]:
    if entry is None:
        return []
    because = f" (because of {entry.because})" if entry.because else ""
    texts = [f"{entry.at_ms} {entry.cause}{because} {entry.what}", *(f"    -> {effect}" for effect in entry.effects)]
    return [text.replace("\n", "\\n").replace("\r", "\\r") for text in texts]


class Story:
    """A bounded history. `mask` hides secrets in a text."""

    def __init__(self, length: int = LENGTH, mask: Mask = str) -> None:
        self._records: deque[RecordedStep | RecordedRemark] = deque(maxlen=length)
        self._origins = Origins()
        self._mask = mask

    def add(self, event: Event, effects: tuple[Effect, ...]) -> str | None:
        """Records a step, unless it only reads. Returns the id of the event that caused it, if there is one."""
        if _only_reads(event.payload, effects):
            return None
        origin = self._origins.of(event.payload)
        about = subjects(event.payload) | (origin.about if origin is not None else frozenset())
        effects_about = tuple(map(self._origins.about, effects))
        if isinstance(event.payload, RequestReceived):  # answered at once, or later
            effects_about = tuple(
                about if isinstance(effect, Reply) and effect.request_id == event.payload.request_id else own
                for effect, own in zip(effects, effects_about, strict=True)
            )
        self._origins.remember(event.cause, event.payload, about, effects)
        because = origin.cause if origin is not None else None
        self._records.append(RecordedStep(event, effects, because, about, effects_about))
        return because

    def note(self, at_ms: int, cause: str, remark: Remark) -> None:
        """Records a remark of another part of the worker."""
        self._records.append(RecordedRemark(at_ms, cause, remark))

    def of(self, connector: ConnectorName) -> tuple[StoryEntry, ...]:
        """The entries that concern a connector and its tasks, oldest first."""
        entries = (record.entry(connector, self._mask) for record in list(self._records))
        return tuple(entry for entry in entries if entry is not None)

    def text(self, connector: ConnectorName | None = None, last: int = LENGTH) -> str:
        """The last steps as text, oldest first; with a connector, only those that concern it."""
        records = list(self._records)[-last:]
        return "\n".join(line for record in records for line in _lines(record.entry(connector, self._mask)))
