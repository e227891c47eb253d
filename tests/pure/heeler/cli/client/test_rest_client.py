import json
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread

import pytest

from heeler.cli.client.rest_client import RestClient, RestError

REBALANCING = "Request cannot be completed because a rebalance is expected"
STALE = ("Cannot complete request momentarily due to stale configuration "
         "(typically caused by a concurrent config change)")


@pytest.fixture
def worker():
    """A client, and the list of (status, message) that its worker will answer with, one a request; then with 200."""
    refusals = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            status, message = refusals.pop(0) if refusals else (200, "fine")
            text = json.dumps({"error_code": status, "message": message}).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *_):
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield RestClient("127.0.0.1", server.server_port), refusals
        server.shutdown()


@pytest.mark.parametrize("refusal", [(409, STALE), (500, REBALANCING)])
def test_a_request_refused_during_a_rebalance_is_repeated(worker, refusal):
    client, refusals = worker
    refusals += [refusal]
    assert client.call("GET", "/connectors/c/config")["message"] == "fine"


@pytest.mark.parametrize("refusal", [(409, "Connector c already exists"), (500, "Failed to start task: c-0"),
                                     (404, "Connector c not found")])
def test_other_refusals_are_errors(worker, refusal):
    client, refusals = worker
    refusals += [refusal]
    with pytest.raises(RestError, match=refusal[1]) as caught:
        client.call("GET", "/connectors/c/config")
    assert caught.value.status == refusal[0]
