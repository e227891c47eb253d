"""What happened to a herder lately: for its log, for error messages and for `story(connector)`."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from actors.herder.effects import Effect
from actors.herder.events import Event
from storage.ids import ConnectorName

LENGTH = 2000
WIDTH = 300


@dataclass(frozen=True, slots=True)
class Chapter:
    """One step: the event and the effects that it had."""

    event: Event
    effects: tuple[Effect, ...]

    def lines(self, connector: ConnectorName | None = None, mask: Callable[[str], str] = str) -> list[str]:
        """As text, where it concerns the connector (all of it for None); what is long is cut once it is masked."""
        texts = [f"{self.event.now_ms} {self.event.cause} {_short(self.event.payload, mask)}",
                 *(f"    -> {_short(e, mask)}" for e in self.effects)]
        return texts if connector is None or any(f"'{connector}'" in t for t in texts) else []


class Story:
    """A bounded history of steps. `mask` takes out of a text what must not be told."""

    def __init__(self, length: int = LENGTH, mask: Callable[[str], str] = str) -> None:
        self._chapters: deque[Chapter] = deque(maxlen=length)
        self._mask = mask

    def add(self, event: Event, effects: tuple[Effect, ...]) -> None:
        """Remember a step."""
        self._chapters.append(Chapter(event, effects))

    def tell(self, connector: ConnectorName | None = None, last: int = LENGTH) -> str:
        """The last steps that concern a connector, oldest first."""
        lines = [line for chapter in list(self._chapters)[-last:] for line in chapter.lines(connector, self._mask)]
        return "\n".join(lines)


def _short(value: object, mask: Callable[[str], str]) -> str:
    text = mask(repr(value))
    return text if len(text) <= WIDTH else text[: WIDTH - 3] + "..."
