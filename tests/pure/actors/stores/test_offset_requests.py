"""Requests for the offsets of connectors, with a store that does not answer."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pykka
import pytest

from actors.messages.requests import AlterOffsets, GetOffsets
from actors.stores import offset_requests
from actors.stores.offset_requests import OffsetRequests
from spark_tasks.errors import ConnectError
from spark_tasks.plugins.api import SourceConnector
from storage.ids import ConnectorName

C = ConnectorName("c")


class Silent(pykka.ThreadingActor):
    """A store that does not respond."""

    def on_receive(self, message: Any) -> None:
        pass


@pytest.fixture
def requests(monkeypatch: pytest.MonkeyPatch) -> Iterator[OffsetRequests]:
    monkeypatch.setattr(offset_requests, "TIMEOUT_S", 0.05)
    config: Any = SimpleNamespace(own_offsets=lambda _: None, exactly_once=False)
    source = SimpleNamespace(cls=SourceConnector)
    plugins: Any = SimpleNamespace(connector_of=lambda _: source, connector_type=lambda _: "source")
    configs: Any = SimpleNamespace(config=SimpleNamespace(connector_configs={C: {}}))
    fencing: Any = None
    store = Silent.start()
    made = OffsetRequests(config, plugins, configs, lambda found, _: dict(found), store, fencing)
    yield made
    made.close()
    store.stop()


@pytest.mark.parametrize("request_", [GetOffsets(C), AlterOffsets(C, (({"f": 1}, None),))])
def test_an_offsets_topic_that_does_not_respond_is_reported(requests: OffsetRequests, request_: Any) -> None:
    answered: Future[Exception | None] = Future()
    requests.start(request_, lambda _, error: answered.set_result(error))
    error = answered.result(20)
    assert isinstance(error, ConnectError)
    assert "No answer from the offsets topic within 0 s: its brokers are unreachable" in str(error)
