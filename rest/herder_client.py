"""Passes requests to the herder and waits for its answer. A request that another worker has to serve is forwarded, or
refused with 409.

The worker that received a request from the user repeats it for `rest.rebalance.wait.ms` if it is refused because of a
rebalance. A forwarded request contains how much of that time is left: other workers wait no longer, and do not repeat
it.
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
from rest.server.request_limits import WAIT_HEADER, RequestLimits
from rest.server.settings import RestSettings
from rest.wire.responses import instant
from rest.wire.worker_view import WorkerView
from spark_tasks.process.worker_requests import PERMANENT_CONFLICT
from storage.ids import Config


class AskHerder(Protocol):
    """Passes a request to the actor that handles it."""

    def __call__(self, request: Request | StoreRequest, wait_ms: int | None = None, /) -> pykka.Future[Any]:
        """The future is always completed. `wait_ms`: how long the request may wait for the group to become stable."""


NO_LEADER = "Cannot complete request momentarily due to no known leader URL, likely because a rebalance was underway."
STALE = ("Cannot complete request momentarily due to stale configuration (typically caused by a concurrent config "
         "change)")
CONFLICT = "Cannot complete request because of a conflicting operation (e.g. worker rebalance)"


class ValidationAnswer(Protocol):
    """The result of ValidateConfig (spark_tasks.validation, which REST does not import)."""

    def to_json(self) -> dict[str, Any]:
        """The body of the response."""


@dataclass(frozen=True, slots=True)
class HerderClient:
    """Sends requests to the herder on behalf of the current Flask request."""

    ask: AskHerder
    view: WorkerView
    settings: RestSettings
    client: Forwarder

    def answer(self, message: Request | StoreRequest) -> Any:
        """The answer of this worker. Raises the herder's errors, and HttpError (500) after the deadline."""
        return self._answer(message, RequestLimits(self.settings))

    def _answer(self, message: Request | StoreRequest, limits: RequestLimits) -> Any:
        try:
            return self.ask(message, limits.wait_ms).get(timeout=limits.answer_s)
        except pykka.Timeout:
            raise HttpError(500, _timed_out(self.view.stage)) from None

    def answer_or_forward(self, message: Request, body: Any = None, query: Mapping[str, str] | None = None) -> Any:
        """The herder's answer, or the response of the worker that the herder names, as Remote.

        `body` and `query` are those of the forwarded request. A request is forwarded at most twice: first with
        forward=true, then with forward=false; a worker refuses to forward the latter again (409).
        """
        limits = RequestLimits(self.settings)
        while True:
            try:
                return self._answer_or_forward(message, body, query or {}, limits)
            except (HttpError, ConflictError) as error:
                if not _is_transient(error) or not limits.pause():
                    raise

    def _answer_or_forward(self, message: Request, body: Any, query: Mapping[str, str], limits: RequestLimits) -> Any:
        try:
            return self._answer(message, limits)
        except RebalanceNeededError:
            raise HttpError(409, STALE) from None
        except RequestTargetError as error:
            hop = request.args.get("forward")
            if hop is not None and hop.lower() != "true":
                raise HttpError(409, CONFLICT) from None
            if not error.url:
                raise HttpError(409, NO_LEADER) from None
            return self._forward(error.url, hop is None, body, query, limits)

    def _forward(
        self, target: str, first_hop: bool, body: Any, query: Mapping[str, str], limits: RequestLimits
    ) -> Remote:
        path = request.environ[RAW_PATH]
        parameters = urlencode({"forward": str(first_hop).lower(), **query})
        url = f"{target.rstrip('/')}{path}?{parameters}"
        headers = {name: value for name, value in (
            ("Authorization", request.headers.get("Authorization")),
            (WAIT_HEADER, None if limits.wait_ms is None else str(limits.wait_ms)),
        ) if value is not None}
        return self.client.send(request.method, url, body, headers)

    def validation(self, config: Config) -> dict[str, Any]:
        """A plugin's validation of a config.

        Errors are 500 with the class name before the text, as in Kafka Connect, which validates in another thread.
        """
        try:
            infos: ValidationAnswer = self.answer(ValidateConfig(config))
        except (HttpError, TimedOutError):
            raise
        except Exception as error:  # plugin code may raise anything
            raise HttpError(500, as_java(error)) from error
        return infos.to_json()

    def health(self) -> tuple[int, str, str]:
        """Status code, status and message (KIP-1017): whether the herder answers within ten seconds."""
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


def _is_transient(error: Exception) -> bool:
    """Whether the request may succeed a moment later; nothing has been done for it yet."""
    conflict = isinstance(error, ConflictError) or (isinstance(error, HttpError) and error.status == 409)
    return conflict and not str(error).endswith(PERMANENT_CONFLICT)


def summary(stage: RequestStage) -> str:
    """What the herder is doing, in Kafka Connect's words."""
    if stage.completed_ms is None:
        return f"The worker is currently {stage.description}, which began at {instant(stage.started_ms)}."
    return (f"The last operation the worker completed was {stage.description}, which began at "
            f"{instant(stage.started_ms)} and completed at {instant(stage.completed_ms)}.")


def _timed_out(stage: RequestStage | None) -> str:
    return "Request timed out" if stage is None else f"Request timed out. {summary(stage)}"
