"""Errors that a request to the herder can end with; rest/errors.py maps each to a status code."""

from __future__ import annotations

from spark_tasks.errors import ConnectError


class NotFoundError(ConnectError):
    """404: no such connector, task or plugin."""


class AlreadyExistsError(ConnectError):
    """409: a connector of that name exists."""


class BadRequestError(ConnectError):
    """400: the request or the configuration in it is wrong."""


class ConflictError(ConnectError):
    """409: the worker cannot do this now; the same request may succeed a moment later."""


class TimedOutError(ConnectError):
    """500: an answer did not come in time. `stage` is a RequestStage: what the request waits for."""

    def __init__(self, message: str, stage: object) -> None:
        super().__init__(message)
        self.stage = stage


class RebalanceNeededError(ConnectError):
    """The worker expects a rebalance: 409 for writes, 500 for reads (Kafka Connect's own difference)."""


class RequestTargetError(ConnectError):
    """Another worker has to serve this request; `url` is its REST address, None where it is unknown."""

    def __init__(self, message: str, url: str | None) -> None:
        super().__init__(message)
        self.url = url


class NotLeaderError(RequestTargetError):
    """Only the leader may do this."""


class NotAssignedError(RequestTargetError):
    """The leader says which worker runs this connector or task."""


class RequestRefusedError(ConnectError):
    """An internal request between workers was refused: 400 unsigned, 403 badly signed, 503 no session key yet."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status
