"""Errors of requests to the herder; rest/errors.py maps each to a status code."""

from __future__ import annotations

from spark_tasks.errors import ConnectError


class NotFoundError(ConnectError):
    """404: no such connector, task or plugin."""


class AlreadyExistsError(ConnectError):
    """409: a connector of that name already exists."""


class BadRequestError(ConnectError):
    """400: the request or the configuration in it is wrong."""


class ConflictError(ConnectError):
    """409: the worker cannot do this now; the same request may succeed a moment later."""


class TimedOutError(ConnectError):
    """500: no answer came in time. `stage` is a RequestStage: what the request was waiting for."""

    def __init__(self, message: str, stage: object) -> None:
        super().__init__(message)
        self.stage = stage


class RebalanceNeededError(ConnectError):
    """The worker expects a rebalance: 409 for writes, 500 for reads, as in Kafka Connect."""


class RequestTargetError(ConnectError):
    """Another worker has to serve this request; `url` is its REST address, None if unknown."""

    def __init__(self, message: str, url: str | None) -> None:
        super().__init__(message)
        self.url = url


class NotLeaderError(RequestTargetError):
    """Only the leader can serve this request."""


class NotAssignedError(RequestTargetError):
    """The connector or task runs on another worker, which the leader names."""


class RequestRefusedError(ConnectError):
    """An internal request between workers was refused: 400 unsigned, 403 wrong signature, 503 no session key yet."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status
