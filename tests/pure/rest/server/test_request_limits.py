"""rest.rebalance.wait.ms: requests refused during a rebalance are repeated by the worker that the client has called."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import pykka
import pytest
from werkzeug.test import Client

from actors.errors import (
    AlreadyExistsError,
    ConflictError,
    NotFoundError,
    NotLeaderError,
    RebalanceNeededError,
)
from rest.server.settings import RestSettings
from spark_tasks.errors import ConfigError
from tests.rigs.fake_herder import FakeWorker
from tests.rigs.rest_apps import client_of, rest_settings
from tests.rigs.serving import ports_of, serving, stub

WAITING = replace(RestSettings(), rebalance_wait_s=30.0)
HEADER = "X-Heeler-Rebalance-Wait-Ms"


@dataclass
class Troubled(FakeWorker):
    """Answers with errors first, each once."""

    troubles_first: list[Exception] = field(default_factory=list)

    def ask(self, request: Any, wait_ms: int | None = None) -> pykka.Future[Any]:
        self.redirect = self.troubles_first.pop(0) if self.troubles_first else None
        return super().ask(request, wait_ms)


def client(worker: FakeWorker, settings: RestSettings = WAITING) -> Client:
    return client_of(worker, settings)


NO_LEADER = NotLeaderError("no", None)
PASSING: list[Callable[[], Exception]] = [
    lambda: NotLeaderError("no", None), lambda: RebalanceNeededError("soon"), lambda: ConflictError("lost the claim")]


@pytest.mark.parametrize("trouble", PASSING, ids=lambda make: type(make()).__name__)
def test_a_conflict_is_retried_until_it_is_over(trouble: Callable[[], Exception]) -> None:
    worker = Troubled(troubles_first=[trouble(), trouble()])
    answer = client(worker).delete("/connectors/a")
    assert (answer.status_code, len(worker.asked)) == (404, 3)  # the third one was served
    first, *_, last = worker.waits
    assert first is not None
    assert last is not None
    assert 30_000 >= first > last


@pytest.mark.parametrize("trouble", PASSING, ids=lambda make: type(make()).__name__)
def test_without_the_setting_a_conflict_is_returned_at_once(trouble: Callable[[], Exception]) -> None:
    worker = Troubled(troubles_first=[trouble(), trouble()])
    assert client(worker, RestSettings()).delete("/connectors/a").status_code == 409
    assert worker.waits == [None]


def test_a_permanent_refusal_is_not_retried() -> None:
    for error, status in ((AlreadyExistsError("Connector a already exists"), 409), (NotFoundError("none"), 404)):
        worker = Troubled(troubles_first=[error, error])
        assert client(worker).delete("/connectors/a").status_code == status
        assert len(worker.asked) == 1


def test_retries_end_after_the_configured_time() -> None:
    worker = FakeWorker(redirect=NO_LEADER)
    settings = replace(RestSettings(), rebalance_wait_s=0.12)
    assert client(worker, settings).delete("/connectors/a").status_code == 409
    assert len(worker.asked) >= 2


def test_a_request_that_another_worker_refuses_is_repeated_from_the_beginning() -> None:
    """For example a worker that no longer leads; also a Java worker."""
    with stub(409, {"error_code": 409, "message": "Cannot complete request because of a conflicting operation"}) as old:
        worker = Troubled(troubles_first=[NotLeaderError("no", f"http://127.0.0.1:{old.port}")] * 2)
        answer = client(worker).delete("/connectors/a")
    assert (answer.status_code, len(old.requests), len(worker.asked)) == (404, 2, 3)


def test_already_exists_is_final_from_another_worker_too() -> None:
    with stub(409, {"error_code": 409, "message": "Connector a already exists"}) as other:
        worker = FakeWorker(redirect=NotLeaderError("no", f"http://127.0.0.1:{other.port}"))
        assert client(worker).delete("/connectors/a").status_code == 409
        assert len(other.requests) == 1


def test_a_forwarded_request_does_not_wait_twice() -> None:
    """The forwarding worker says how much time is left; the receiving worker does not repeat the request."""
    last = Troubled(troubles_first=[NO_LEADER])
    with serving(last, WAITING) as server:
        url = f"http://127.0.0.1:{ports_of(server)[0]}"
        worker = Troubled(troubles_first=[NotLeaderError("no", url), NotLeaderError("no", url)])
        assert client(worker).delete("/connectors/a").status_code == 404
    assert len(last.asked) == len(worker.asked) == 2
    assert all(wait is not None and 0 < wait <= 30_000 for wait in last.waits)


@pytest.mark.parametrize(("said", "received"), [
    ("1500", 1500), ("999999", 60_000), ("", None), ("-1", None), ("x", None), ("1" * 5000, None), ("0", 0),
    ("\u0661", None)])
def test_the_wait_header_of_a_forwarded_request(said: str, received: int | None) -> None:
    worker = FakeWorker()
    client(worker).delete("/connectors/a?forward=true", headers={HEADER: said} if said else {})
    wait, = worker.waits
    assert (wait is None) is (received is None)
    assert wait is None or received is None or received - 1000 < wait <= received


def test_only_forwarded_requests_may_have_the_wait_header() -> None:
    worker = FakeWorker()
    client(worker).delete("/connectors/a", headers={HEADER: "5"})
    assert worker.waits[0] is not None
    assert worker.waits[0] > 5


def test_internal_endpoints_wait_too() -> None:
    worker = Troubled(troubles_first=[NO_LEADER])
    client(worker).put("/connectors/a/fence")
    client(worker).post("/connectors/a/tasks", json=[])
    assert len(worker.asked) == 3


def test_rest_rebalance_wait_ms_is_parsed_and_limited() -> None:
    assert rest_settings({}).rebalance_wait_s == 0
    assert rest_settings({"rest.rebalance.wait.ms": "2500"}).rebalance_wait_s == 2.5
    with pytest.raises(ConfigError, match=r"rest\.rebalance\.wait\.ms"):
        rest_settings({"rest.rebalance.wait.ms": "60001"})
