"""The end of a request is never ambiguous, and invalid requests are refused."""

from __future__ import annotations

import contextlib
import json
import socket
from collections.abc import Iterator
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rest.server.settings import RestSettings
from tests.rigs.fake_herder import FakeWorker
from tests.rigs.serving import LOCAL, call, ports_of, serving, statuses

SMUGGLED = b"GET /smuggled HTTP/1.1\r\nHost: b\r\n\r\n"
POST = b"POST /connectors HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"
TIMEOUT_S = 60


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    with serving(FakeWorker(), replace(RestSettings(), listeners=LOCAL, max_body_bytes=4096)) as server:
        yield ports_of(server)[0]


def exchange(port: int, request: bytes) -> bytes:
    """All that the server says to some bytes, until it closes or, after the last request, the client does."""
    with socket.create_connection(("127.0.0.1", port), TIMEOUT_S) as connection:
        connection.sendall(request)
        connection.shutdown(socket.SHUT_WR)
        return b"".join(iter(lambda: connection.recv(65536), b""))


@pytest.mark.parametrize("headers_and_body", [
    b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    b"Transfer-Encoding: chunked\r\nContent-Length: 2\r\n\r\n0\r\n\r\n",
    b"Content-Length: 2\r\nContent-Length: 2\r\n\r\n{}", b"Content-Length: 2\r\nContent-Length: 0\r\n\r\n{}",
    b"Content-Length: +2\r\n\r\n{}", b"Content-Length: 0_2\r\n\r\n{}", b"Content-Length: -2\r\n\r\n",
    b"Content-Length: 0x2\r\n\r\n{}", b"Content-Length: 2, 2\r\n\r\n{}", b"Content-Length: \r\n\r\n",
    b"Content-Length: " + b"9" * 5000 + b"\r\n\r\n",
    b"Content-Length : 2\r\n\r\n{}", b"Content-Length\t: 2\r\n\r\n{}", b" Content-Length: 2\r\n\r\n{}",
    b"X: a\r\n Content-Length: 2\r\n\r\n{}", b"X: a\rContent-Length: 2\r\n\r\n{}", b"X: a\nContent-Length: 2\r\n\r\n{}",
    b"X: a\0\r\n\r\n", b": a\r\n\r\n", b"X(: a\r\n\r\n", b"Host: b\r\n\r\n",
    b"Transfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n", b"Transfer-Encoding: chunked, gzip\r\n\r\n0\r\n\r\n",
    b"Transfer-Encoding: \r\n\r\n0\r\n\r\n", b"Transfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n",
    *(b"Transfer-Encoding: chunked\r\n\r\n" + body for body in (
        b"0x2\r\n{}\r\n0\r\n\r\n", b"+2\r\n{}\r\n0\r\n\r\n", b"-2\r\n{}\r\n0\r\n\r\n", b"0_2\r\n{}\r\n0\r\n\r\n",
        b" 2\r\n{}\r\n0\r\n\r\n", b"2\n{}\r\n0\r\n\r\n", b"2\r\n{}0\r\n\r\n", b"2\r\n{}xx\r\n0\r\n\r\n", b"\r\n{}\r\n",
        b"2;a\nb\r\n{}\r\n0\r\n\r\n", b"0\r\nGET / HTTP/1.1\r\n\r\n", b"0\r\n" + b"A: b\r\n" * 4000 + b"\r\n",
        b"f" * 5000 + b"\r\n")),
])
def test_a_request_whose_end_is_ambiguous_is_refused_and_the_connection_closed(
    port: int, headers_and_body: bytes
) -> None:
    answers = exchange(port, POST + headers_and_body + SMUGGLED)
    assert statuses(answers) == [400]
    head, _, body = answers.partition(b"\r\n\r\n")
    assert b"\r\nConnection: close" in head
    assert json.loads(body)["error_code"] == 400


@pytest.mark.parametrize("request_bytes", [
    b"GET / HTTP/1.01\r\nHost: a\r\n\r\n", b"GET / HTTP/+1.1\r\nHost: a\r\n\r\n", b"GET / HTTP/1.1\r\n\r\n",
    b"GET /\x0b HTTP/1.1\r\nHost: a\r\n\r\n", b"GET //[ HTTP/1.1\r\nHost: a\r\n\r\n",
    b"POST / HTTP/1.0\r\nConnection: Keep-Alive\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
])
def test_a_malformed_head_is_refused(port: int, request_bytes: bytes) -> None:
    assert statuses(exchange(port, request_bytes + SMUGGLED)) == [400]


@pytest.mark.parametrize("head", [
    b"GET http://a:8083/connectors HTTP/1.1\r\nHost: a:8083",
    b"GET HTTPS://a/connectors?expand=info HTTP/1.1\r\nHost: a", b"GET http://a HTTP/1.1\r\nHost: a",
    b"GET http://a?b HTTP/1.1\r\nHost: a", b"GET http://a/connectors HTTP/1.0",
    b"OPTIONS http://a/connectors HTTP/1.1\r\nHost: a",
])
def test_the_target_may_be_absolute_as_proxies_send_it(port: int, head: bytes) -> None:
    assert statuses(exchange(port, head + b"\r\n\r\n")) == [200]


def test_an_absolute_target_is_the_same_resource(port: int) -> None:
    def body(target: bytes) -> bytes:
        return exchange(port, b"GET " + target + b" HTTP/1.1\r\nHost: a\r\n\r\n").partition(b"\r\n\r\n")[2]

    for path in (b"/", b"/connectors?expand=info", b"/connectors/a%2Fb/status", b"/nope"):
        assert body(b"http://a" + path) == body(path)


@pytest.mark.parametrize(("head", "status"), [
    (b"GET http://b/ HTTP/1.1\r\nHost: a", 400), (b"GET http://u@a/ HTTP/1.1\r\nHost: a", 400),
    (b"GET http:///connectors HTTP/1.1\r\nHost: a", 400), (b"GET ftp://a/ HTTP/1.1\r\nHost: a", 400),
    (b"GET a:b HTTP/1.1\r\nHost: a", 400), (b"GET http://a//connectors HTTP/1.1\r\nHost: a", 400),
    (b"GET //a/connectors HTTP/1.1\r\nHost: a", 400), (b"GET connectors HTTP/1.1\r\nHost: a", 400),
    (b"GET http://a/ HTTP/1.1", 400), (b"CONNECT a:443 HTTP/1.1\r\nHost: a:443", 405),
])
def test_other_targets_are_refused(port: int, head: bytes, status: int) -> None:
    assert statuses(exchange(port, head + b"\r\nConnection: close\r\n\r\n")) == [status]


@pytest.mark.parametrize(("start", "status"), [
    (b"POST /nope", 404), (b"PUT /connectors", 405), (b"GET /connectors", 200), (b"POST /connectors/a//b", 400),
    (b"POST /connectors", 500), (b"DELETE /connectors/a", 404),
])
@pytest.mark.parametrize("framed", [
    b"Content-Length: %d\r\n\r\n%s" % (len(SMUGGLED), SMUGGLED),
    b"Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n" % (len(SMUGGLED), SMUGGLED),
    b"Transfer-Encoding: Chunked\r\n\r\n%x ;a=b\r\n%s\r\n0\r\nA: GET / HTTP/1.1\r\n\r\n" % (len(SMUGGLED), SMUGGLED),
    # WSGI would take its underscore for a dash
    b"Content_Length: 0\r\nContent-Length: %d\r\n\r\n%s" % (len(SMUGGLED), SMUGGLED),
])
def test_a_body_is_never_taken_for_the_next_request(port: int, start: bytes, status: int, framed: bytes) -> None:
    head = start + b" HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"
    assert statuses(exchange(port, head + framed + b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")) == [status, 200]


@pytest.mark.parametrize("path", [b"/", b"/connectors/a", b"/connectors/a//b", b"/connectors/%00", b"/nope"])
def test_a_response_to_head_has_no_body_that_could_be_taken_for_the_next_response(port: int, path: bytes) -> None:
    answers = exchange(port, b"HEAD " + path + b" HTTP/1.1\r\nHost: a\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n")
    _, after_head = answers.split(b"\r\n\r\n", 1)
    assert after_head.startswith(b"HTTP/1.1 200 ")


@pytest.mark.parametrize("value", [b"close", b"Close", b"TE, close", b"x\r\nConnection: CLOSE"])
def test_a_connection_is_closed_if_the_client_says_so(port: int, value: bytes) -> None:
    asked = b"GET / HTTP/1.1\r\nHost: a\r\nConnection: " + value + b"\r\n\r\n"
    answers = exchange(port, asked + SMUGGLED)
    assert statuses(answers) == [200]
    assert b"\r\nConnection: close\r\n" in answers


def test_a_client_may_ask_before_it_sends_the_body(port: int) -> None:
    with socket.create_connection(("127.0.0.1", port), TIMEOUT_S) as connection:
        connection.sendall(POST + b"Expect: 100-Continue\r\nContent-Length: 2\r\n\r\n")
        assert statuses(connection.recv(65536)) == [100]
        connection.sendall(b"{}")
        assert statuses(connection.recv(65536)) == [500]


def test_requests_that_are_too_large_are_refused_before_they_are_read(port: int) -> None:
    over = b"POST /connectors HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 4097\r\n\r\n"
    with socket.create_connection(("127.0.0.1", port), TIMEOUT_S) as connection:
        connection.sendall(over)  # and none of the body
        assert statuses(b"".join(iter(lambda: connection.recv(65536), b""))) == [413]
    chunks = POST + b"Transfer-Encoding: chunked\r\n\r\n" + b"400\r\n" + b" " * 1024 + b"\r\n"
    assert statuses(exchange(port, chunks + (b"400\r\n" + b" " * 1024 + b"\r\n") * 300 + b"0\r\n\r\n")) == [413]
    assert statuses(exchange(port, b"GET / HTTP/1.1\r\nHost: a\r\nA: " + b"b" * 80_000 + b"\r\n\r\n")) == [431]
    assert statuses(exchange(port, b"GET / HTTP/1.1\r\nHost: a\r\n" + b"A: b\r\n" * 20_000 + b"\r\n")) == [431]
    assert statuses(exchange(port, b"GET /" + b"a" * 80_000 + b" HTTP/1.1\r\nHost: a\r\n\r\n")) == [414]
    for answered in (b"GET / HTTP/1.1\r\nHost: a\r\nA: " + b"b" * 60_000 + b"\r\n\r\n",
                     b"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 4096\r\n\r\n" + b" " * 4096):
        assert statuses(exchange(port, answered)) == [200]


def test_a_response_reaches_a_client_that_keeps_sending(port: int) -> None:
    """If bytes were left unread, the system would reset the connection and the response could be lost."""
    for _ in range(20):
        assert statuses(exchange(port, POST + b"Content-Length: 1000000\r\n\r\n" + b" " * 1_000_000)) == [413]


SEPARATE = st.sampled_from([
    b"\r\n", b"\n", b"\r", b" ", b"\t", b"\0", b":", b",", b";", b"0", b"+", b"_", b"x", b"\x85"])
FRAMING = st.sampled_from([
    b"Content-Length: 2\r\n", b"Content-Length: 0\r\n", b"Transfer-Encoding: chunked\r\n", b"X: y\r\n", b"\r\n", b"{}",
    b"2\r\n{}\r\n", b"0\r\n\r\n", b"Connection: keep-alive\r\n", b"A: b\r\n"])


def whole_requests(data: bytes) -> int:
    """How many h11 sees."""
    import h11

    count = 0
    with contextlib.suppress(h11.RemoteProtocolError):
        while data:
            reader = h11.Connection(h11.SERVER)
            reader.receive_data(data)
            while not isinstance(event := reader.next_event(), h11.EndOfMessage):
                if event is h11.NEED_DATA:
                    return count
            count += 1
            data = reader.trailing_data[0].removeprefix(b"\r\n")  # one empty line may be between two
    return count


@given(st.lists(FRAMING | SEPARATE, max_size=8).map(b"".join))
def test_request_framing_is_interpreted_no_more_leniently_than_by_another_parser(port: int, middle: bytes) -> None:
    sent = b"POST /nope HTTP/1.1\r\nHost: a\r\n" + middle + b"\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n"
    answered = statuses(exchange(port, sent))
    refused = answered[-1:] in ([400], [501])
    assert len(answered) - refused <= whole_requests(sent), answered
    assert set(answered[:-1]) <= {404, 200}


def raw_exchange(port: int, request: bytes) -> tuple[bytes, bytes]:
    """Head and body of the answer to some bytes."""
    with socket.create_connection(("127.0.0.1", port), 10) as connection:
        connection.sendall(request)
        connection.shutdown(socket.SHUT_WR)
        answer = b"".join(iter(lambda: connection.recv(65536), b""))
    head, _, body = answer.partition(b"\r\n\r\n")
    return head, body


@pytest.mark.parametrize("request_bytes", [
    b"nonsense\r\n\r\n", b"GET\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"GET / HTTP/1.1\r\nbad header\r\n\r\n",
    b"POST /connectors HTTP/1.1\r\nHost: a\r\nContent-Length: x\r\n\r\n",
    b"POST /connectors HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip\r\n\r\n",
])
def test_input_that_is_not_http_gets_an_error_like_all_others(request_bytes: bytes) -> None:
    with serving(FakeWorker()) as server:
        head, body = raw_exchange(ports_of(server)[0], request_bytes)
        status = int(head.split()[1])
        assert status >= 400
        assert b"application/json" in head
        assert json.loads(body)["error_code"] == status
        assert call(ports_of(server)[0], "GET", "/connectors") == (200, [])


def test_chunked_bodies_are_read() -> None:
    with serving(FakeWorker()) as server:
        head, body = raw_exchange(ports_of(server)[0], (
            b"PUT /connectors/a/config HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"
            b"Connection: close\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n"))
    assert head.startswith(b"HTTP/1.1 400")
    assert json.loads(body)["message"] == "Connector config {name=a} contains no connector type"
