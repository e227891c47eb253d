"""A worker's responses of any status, size and shape: messages and exit codes."""

from __future__ import annotations

import pytest

from spark_tasks.process import worker_requests
from tests.rigs.cli_fake import ESCAPE, INFO, run


@pytest.mark.parametrize(("words", "request_line"), [
    (("loggers", "list"), "GET /admin/loggers"), (("loggers", "set", "root", "INFO"), "PUT /admin/loggers/root"),
    (("connectors", "story", "c"), "GET /connectors/c/story"),
    (("connectors", "replay", "c", "--yes"), "POST /connectors/c/dead-letters/replay"),
])
def test_errors_say_that_an_endpoint_is_not_served_here(fake, words, request_line):
    """By a Java worker, or because heeler serves it on admin.listeners."""
    error = run(fake, *words, code=4).stderr
    assert f"{request_line} is not served at this address. Workers of Java Kafka Connect" in error
    assert "A worker with admin.listeners serves some paths only there" in error
    fake.answers[request_line] = 404, {"error_code": 404, "message": "Connector c not found"}
    assert run(fake, *words, code=4).stderr == "heeler: HTTP 404: Connector c not found\n"


@pytest.mark.parametrize(("answer", "code", "text"), [
    ((404, {"error_code": 404, "message": "Connector c not found"}), 4, "HTTP 404: Connector c not found"),
    ((400, {"error_code": 400, "message": "wrong"}), 5, "HTTP 400: wrong"),
    ((401, b"User cannot access the resource."), 5, "HTTP 401: User cannot access the resource."),
    ((409, {"error_code": 409, "message": "Connector c already exists"}), 5, "already exists"),
    ((409, {"error_code": 409, "message": "stale configuration"}), 6, "stale configuration"),
    ((500, {"error_code": 500, "message": "a rebalance"}), 7, "HTTP 500: a rebalance"),
    ((500, b""), 7, "(no message)"),
    ((502, b"<html>" + b"x" * 10_000), 7, "10,000 characters"),
    ((502, b"<html>\n<h1 class='a'>Bad\n  Gateway</h1></html>"), 7, "HTTP 502: Bad Gateway\n"),
    ((404, b"<html>\n<h1>no page</h1></html>"), 7, "Is that a Kafka Connect worker? Its response: no page"),
    ((404, b""), 7, "HTTP 404 without JSON"),
    ((503, {"error_code": 503, "message": ["odd"]}), 7, '["odd"]'),
    ((500, {"error_code": 500, "message": f"no {ESCAPE}"}), 7, r"no \x1b]0;owned\x07\x1b[2J"),
    ((200, b"<html>a proxy</html>"), 7, "is not JSON"),
    ((200, b"[" * 100_000), 7, "is not JSON"),
    ((200, b"\xff\xfe\x00"), 7, "is not JSON"),
    ((200, []), 7, "is not an object but a list"),
    ((200, None), 7, "is not an object but null"),
    ((200, {**INFO, "config": {"a": {"b": "c"}}}), 7, "is not an object of strings but an object"),
    ((302, b""), 7, "redirects (HTTP 302)"),
    ((0, b""), 3, "No worker responds"),
])
def test_errors_have_their_exit_codes(fake, answer, code, text):
    fake.answers["GET /connectors/c"] = answer
    done = run(fake, "connectors", "show", "c", code=code)
    assert text in done.stderr
    assert "Traceback" not in done.output
    assert "\x1b" not in done.output


@pytest.mark.parametrize("status", [
    {"connector": {}, "tasks": [{"id": "0"}]}, {"connector": []}, {"connector": {}, "tasks": {}}, "RUNNING",
    {"connector": {}, "tasks": [[]]},
])
def test_malformed_statuses_are_reported(fake, status):
    fake.answers["GET /connectors/c/status"] = (200, status)
    assert "The response for a connector's status" in run(fake, "connectors", "status", "c", code=7).stderr


def test_a_response_over_the_limit_is_refused(fake, monkeypatch):
    monkeypatch.setattr(worker_requests, "LONGEST_ANSWER", 2**20)
    fake.answers["GET /connectors"] = (200, b" " * 2**21)
    assert "the response has more than 1 MiB" in run(fake, "connectors", "list", code=7).stderr


def test_a_response_that_is_nested_too_deeply_is_refused(fake):
    """Python's JSON reads it, but its YAML cannot write it."""
    nested = b'{"offsets": [{"partition": {}, "offset": %s1%s}]}' % (b'{"a":' * 900, b"}" * 900)
    fake.answers["GET /connectors/c/offsets"] = (200, nested)
    done = run(fake, "offsets", "show", "c", "-o", "yaml", code=7)
    assert "nested too deeply to be shown" in done.stderr
