"""Asks the herder and waits; if another worker has to answer, forwards the request or refuses it (409).

A request refused because of a rebalance is repeated for `rest.rebalance.wait.ms`, by the worker that received it from
the user. It tells workers that it forwards to how much of that time is left: they wait no longer, and do not repeat it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol
from urllib.parse import urlencode

import pykka
from flask import request

from actors.errors import ConflictError, RebalanceNeededError, RequestTargetError, TimedOutError
from actors.messages.requests import HealthCheck, Request, RequestStage, StoreRequest, ValidateConfig
from rest.errors import HttpError, as_java
from rest.forwarding import Forwarder, Remote
from rest.server.paths import RAW_PATH
from rest.server.patience import WAIT_HEADER, RequestPatience
from rest.server.settings import RestSettings
from rest.wire.answers import instant
from rest.wire.view import WorkerView
from storage.ids import Config


class AskHerder(Protocol):
    """Passes a request to the actor that handles it."""

    def __call__(self, request: Request | StoreRequest, wait_ms: int | None = None, /) -> pykka.Future[Any]:
        """The future is always completed. `wait_ms`: how long the request may wait for the group to settle."""


FINAL = "already exists"  # of conflicts, the one that does not pass
NO_LEADER = "Cannot complete request momentarily due to no known leader URL, likely because a rebalance was underway."
STALE = ("Cannot complete request momentarily due to stale configuration (typically caused by a concurrent config "
         "change)")
CONFLICT = "Cannot complete request because of a conflicting operation (e.g. worker rebalance)"


class ValidationAnswer(Protocol):
    """The result of ValidateConfig (spark_tasks.validation, which REST does not import)."""

    def to_json(self) -> dict[str, Any]:
        """The body of the answer."""


@dataclass(frozen=True, slots=True)
class HerderClient:
    """Asks on behalf of the current Flask request."""

    ask: AskHerder
    view: WorkerView
    settings: RestSettings
    client: Forwarder

    def answer(self, asked: Request | StoreRequest) -> Any:
        """Answer of this worker. Raises what the herder answers with, and HttpError (500) after the deadline."""
        return self._answer(asked, RequestPatience(self.settings))

    def _answer(self, asked: Request | StoreRequest, patience: RequestPatience) -> Any:
        try:
            return self.ask(asked, patience.wait_ms).get(timeout=patience.answer_s)
        except pykka.Timeout:
            raise HttpError(500, _timed_out(self.view.stage)) from None

    def answer_or_forward(self, asked: Request, body: Any = None, query: Mapping[str, str] | None = None) -> Any:
        """Answer of this worker, or as Remote that of the worker which the herder names.

        `body` and `query` are what a forwarded request carries. A request crosses at most two hops: the user's own is
        forwarded with forward=true, that one with forward=false, and that one is refused with 409.
        """
        patience = RequestPatience(self.settings)
        while True:
            try:
                return self._answer_or_forward(asked, body, query or {}, patience)
            except (HttpError, ConflictError) as error:
                if not _passes(error) or not patience.pause():
                    raise

    def _answer_or_forward(self, asked: Request, body: Any, query: Mapping[str, str], patience: RequestPatience) -> Any:
        try:
            return self._answer(asked, patience)
        except RebalanceNeededError:
            raise HttpError(409, STALE) from None
        except RequestTargetError as error:
            hop = request.args.get("forward")
            if hop is not None and hop.lower() != "true":
                raise HttpError(409, CONFLICT) from None
            if not error.url:
                raise HttpError(409, NO_LEADER) from None
            return self._forward(error.url, hop is None, body, query, patience)

    def _forward(
        self, target: str, first_hop: bool, body: Any, query: Mapping[str, str], patience: RequestPatience
    ) -> Remote:
        path = request.environ[RAW_PATH]
        parameters = urlencode({"forward": str(first_hop).lower(), **query})
        url = f"{target.rstrip('/')}{path}?{parameters}"
        headers = {name: value for name, value in (
            ("Authorization", request.headers.get("Authorization")),
            (WAIT_HEADER, None if patience.wait_ms is None else str(patience.wait_ms)),
        ) if value is not None}
        return self.client.send(request.method, url, body, headers)

    def validation(self, config: Config) -> dict[str, Any]:
        """What a plugin says of a config.

        Its errors are 500 with the class name before the text, as in Kafka Connect, which validates in another thread.
        """
        try:
            infos: ValidationAnswer = self.answer(ValidateConfig(config))
        except (HttpError, TimedOutError):
            raise
        except Exception as error:  # whatever plugin code raised
            raise HttpError(500, as_java(error)) from error
        return infos.to_json()

    def health(self) -> tuple[int, str, str]:
        """Status code, status and message (KIP-1017): can the herder take its turn within ten seconds?"""
        details = ""
        if self.view.kafka_cluster_id is not None:
            try:
                self.ask(HealthCheck()).get(timeout=self.settings.health_timeout_s)
            except pykka.Timeout:
                pass
            else:
                return 200, "healthy", "Worker has completed startup and is ready to handle requests."
        if self.view.stage is not None:
            details = " " + summary(self.view.stage)
        if not self.view.started:
            return 503, "starting", f"Worker is still starting up.{details}"
        return 500, "unhealthy", (
            f"Worker was unable to handle this request and may be unable to handle other requests.{details}")


def _passes(error: Exception) -> bool:
    """Whether the same request may succeed a moment later; nothing of it has been done."""
    conflict = isinstance(error, ConflictError) or (isinstance(error, HttpError) and error.status == 409)
    return conflict and not str(error).endswith(FINAL)


def summary(stage: RequestStage) -> str:
    """What the herder is doing, in the words that Kafka Connect uses."""
    if stage.completed_ms is None:
        return f"The worker is currently {stage.description}, which began at {instant(stage.started_ms)}."
    return (f"The last operation the worker completed was {stage.description}, which began at "
            f"{instant(stage.started_ms)} and completed at {instant(stage.completed_ms)}.")


def _timed_out(stage: RequestStage | None) -> str:
    return "Request timed out" if stage is None else f"Request timed out. {summary(stage)}"
