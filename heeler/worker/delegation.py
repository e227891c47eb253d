"""What the herder leaves to others: validations, and the requests that do not change its state."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from actors.herder.effects import Delegate, Validate
from actors.herder.events import Validated
from actors.instances.registry import ActorInstances
from actors.messages.commands import ReplayLetters
from actors.messages.requests import ReplayDeadLetters, ValidateConfig
from actors.stores.offset_requests import OffsetRequests
from actors.system.validation import Validation
from storage.ids import ConnectorTaskId


class Delegation:
    """`tell` sends an event to the herder."""

    def __init__(
        self, validation: Validation, offsets: OffsetRequests, instances: ActorInstances, tell: Callable[[Any], None]
    ) -> None:
        self._validation = validation
        self._offsets = offsets
        self._instances = instances
        self._tell = tell

    def validate(self, effect: Validate) -> None:
        """Tells the herder whether a configuration is valid."""
        self._validation.check(effect.config, lambda error: self._tell(Validated(effect.request_id, error)))

    def start(self, effect: Delegate, answer: Callable[[Any, Exception | None], None]) -> None:
        """Passes a request on; `answer` gets the result or the error."""
        if isinstance(effect.request, ValidateConfig):
            self._validation.start(effect.request.config, answer)
        elif isinstance(effect.request, ReplayDeadLetters):
            self._instances.replay(ConnectorTaskId(effect.request.connector, 0),
                                   ReplayLetters(effect.request.order, answer))
        else:
            self._offsets.start(effect.request, answer)  # type: ignore[arg-type]
