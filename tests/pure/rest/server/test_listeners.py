"""The listeners of a worker, and the address that it advertises."""

from __future__ import annotations

from asyncio import CancelledError
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from rest.server.keys import Listener
from rest.server.settings import RestSettings
from spark_tasks.errors import ConfigError
from tests.rigs.fake_herder import FakeWorker
from tests.rigs.serving import LOCAL, call, ports_of, serving


def test_a_port_in_use_is_named() -> None:
    with serving(FakeWorker()) as server:
        taken = replace(RestSettings(), listeners=(Listener("http", "127.0.0.1", ports_of(server)[0]),))
        refusal = f"REST cannot listen on 127.0.0.1:{ports_of(server)[0]}: .*another address"
        with pytest.raises(ConfigError, match=refusal), \
                serving(FakeWorker(), taken):
            pass


def test_several_listeners_and_a_separate_admin_listener() -> None:
    settings = replace(RestSettings(), listeners=LOCAL * 2, admin_listeners=LOCAL)
    with serving(FakeWorker(), settings) as server:
        first, second, admin = ports_of(server)
        for port in (first, second):
            assert call(port, "GET", "/connectors") == (200, [])
            assert call(port, "GET", "/admin/loggers")[0] == 404
        assert call(admin, "GET", "/admin/loggers") == (200, {})
        assert call(admin, "GET", "/connectors")[0] == 404


@pytest.mark.parametrize("error", [SystemExit("no credentials"), CancelledError("no credentials")])
def test_what_is_no_exception_ends_only_its_request(error: BaseException, caplog: pytest.LogCaptureFixture) -> None:
    class Ended(FakeWorker):
        def trial(self, *_: Any) -> Mapping[str, Any]:
            raise error

    with serving(Ended()) as server:
        for _ in range(2):
            assert call(ports_of(server)[0], "POST", "/connectors/try", {"config": {}}) == (
                500, {"error_code": 500, "message": f"the plugin raised {type(error).__name__}: no credentials"})
        assert call(ports_of(server)[0], "GET", "/connectors") == (200, [])
    assert "POST /connectors/try failed" in caplog.text


@pytest.mark.parametrize("every", ["", "0.0.0.0", "::"])
def test_a_listener_on_all_interfaces_advertises_a_reachable_address(every: str) -> None:
    with serving(FakeWorker(), replace(RestSettings(), listeners=(Listener("http", every, 0),))) as server:
        port = ports_of(server)[0]
        assert call(port, "GET", "/connectors") == (200, [])
        assert server.advertised[1] == port
        assert server.advertised[0] not in {"", "::", "0.0.0.0"}
    advertised = replace(RestSettings(), listeners=LOCAL, advertised_host="connect.example", advertised_port=80)
    with serving(FakeWorker(), advertised) as server:
        assert server.advertised_url == "http://connect.example:80/"
        assert server.worker_id == "connect.example:80"


@pytest.mark.parametrize("host", ["fe80::1", "[fe80::1]"])
def test_an_advertised_ipv6_address_is_in_brackets(host: str) -> None:
    """As in Kafka Connect, where it has to be configured with brackets."""
    with serving(FakeWorker(), replace(RestSettings(), listeners=LOCAL, advertised_host=host,
                                       advertised_port=80)) as server:
        assert (server.advertised_url, server.worker_id) == ("http://[fe80::1]:80/", "[fe80::1]:80")
