"""Long texts of others cost time in proportion to their length: a regular expression that backtracks holds Python's
global lock until it ends, so the whole worker stands still, and loses its membership.
"""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest

from rest.json_text import loads as loads_body
from rest.server.settings import RestSettings
from spark_tasks.config.masking import Secrets, passwords, secret_name
from spark_tasks.config.types import Type, parse_type
from spark_tasks.connectors.files.connector import FilesSourceConnector
from spark_tasks.connectors.files.formats import infer_columns
from spark_tasks.connectors.files.settings import FilesSettings
from spark_tasks.data.ddl import parse as parse_ddl
from spark_tasks.kafka.client_config import client_settings
from spark_tasks.kafka.security.key_stores import pem_text
from spark_tasks.kafka.task_clients import reset_policy
from spark_tasks.pipeline.transforms.chain import make_chain
from spark_tasks.pipeline.transforms.sql_query import parsed as parse_query
from spark_tasks.pipeline.transforms.topics import renamed
from spark_tasks.plugins import Plugins
from spark_tasks.plugins.config_providers import ConfigTransformer, has_placeholder
from spark_tasks.plugins.versions import parse_requirement
from spark_tasks.process.rate_limited_log import RateLimitedLog
from spark_tasks.spaces import with_plain_names
from spark_tasks.spark.process_output import SparkOutput
from storage.log.java_json import loads
from storage.log.record import LogRecord
from storage.offsets.fold import OffsetState, fold
from storage.offsets.records import parse_key
from tests.rigs.chains import chain
from tests.rigs.fake_herder import FakeWorker
from tests.rigs.serving import LOCAL, ports_of, serving

LIMITS = {1_000: 0.25, 10_000: 0.25, 100_000: 2.5}
"""Seconds of CPU time for a number of characters: ten times what is needed, and less than what grows with the square or
the cube takes for one of these numbers.
"""
PIECES = (
    " ", "\t ", "\n", "a", "a ", "a,", " , ", "a.", "a=", "a =", "a: ", "1", "1.", "01", "-0", "1,", '"', '\\"',
    "\\", "'", "\\'",
    'a="', "a='", "token", "password=", 'password="', "secret ", "${", "${a", "${:", "$", "{", "}", "[", "(", "://",
    "://a:",
    "?", "?token=", ":", ";", "@", "/", "/*a", "-", "--", "-----BEGIN A-----", "Error.", "Auth", "Sasl", "Channel",
    "offset ",
    "\x01", "\udc80", "é")
BEGINS = ("", '"', "a", '{"a": "', "${", "x y INFO ")
ENDS = ("", "\x01", "b", "}")


def readers() -> Iterator[tuple[str, Callable[[str], object]]]:
    """What reads texts of others."""
    for kind in Type:
        yield f"a {kind.value}", partial(parse_type, "a", kind=kind)
    yield "passwords", lambda text: passwords({"x.password": text, "url": text, "a.user.info": text})
    yield "secret names", secret_name
    yield "secrets", Secrets.of(["Sasl1", "token", "aaaaaaaaaa", "1"]).mask
    yield "placeholders", lambda text: ConfigTransformer({}).transform({"a": text})
    yield "has_placeholder", has_placeholder
    sasl = {"bootstrap.servers": "a:1", "security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN"}
    yield "JAAS", lambda text: client_settings({**sasl, "sasl.jaas.config": text})
    yield "servers", lambda text: client_settings({"bootstrap.servers": text})
    yield "PEM", pem_text
    yield "durations", lambda text: reset_policy({"consumer.override.auto.offset.reset": f"by_duration:P{text}"})
    numbers = pa.record_batch([pa.array([{"a": 1}])], ["value"])
    yield "replacements", lambda text: list(make_chain(Plugins(), chain(
        ("MaskField$Value", {"fields": "a", "replacement": text}))).apply(numbers))
    yield "DDL", parse_ddl
    yield "SQL", lambda text: parse_query(f"SELECT /*{text}")
    yield "versions", parse_requirement
    yield "JSON of topics", lambda text: loads(text.encode(errors="surrogateescape"))
    yield "keys of offsets", lambda text: parse_key(f'["c",{{"a":{text}}}]'.encode(errors="surrogateescape"))
    yield "bodies", lambda text: loads_body(text.encode(errors="surrogateescape"))
    yield "tracebacks", with_plain_names
    yield "Spark's output", lambda text: SparkOutput(RateLimitedLog(10**6)).take(text)


def seconds(read: Callable[[str], object], text: str) -> float:
    """The CPU time that reading a text takes, whether it is refused or not."""
    start = time.process_time()
    with contextlib.suppress(Exception):
        read(text)
    return time.process_time() - start


def texts(size: int) -> Iterator[str]:
    """Texts that repeat something, with all beginnings only if they are short."""
    for number, piece in enumerate(PIECES):
        for begin in BEGINS if size == min(LIMITS) else BEGINS[:2]:
            yield begin + piece * (size // len(piece)) + ENDS[number % len(ENDS)]


def check(read: Callable[[str], object]) -> None:
    """Asserts that no text takes too long."""
    for size, limit in LIMITS.items():
        for text in texts(size):
            assert seconds(read, text) < limit, f"{text[:30]!r}, {size} characters"


@pytest.mark.integration
@pytest.mark.parametrize("read", [pytest.param(read, id=name) for name, read in readers()])
def test_texts_are_read_in_time(read: Callable[[str], object]) -> None:
    check(read)


@pytest.mark.integration
@pytest.mark.parametrize("query", ["SELECT a" + "[1]" * 10_000 + " FROM records", "offset " * 100_000])
def test_queries_are_read_in_time(query: str) -> None:
    assert seconds(parse_query, query) < 2.5


@pytest.mark.integration
def test_secrets_with_many_similar_lines_are_hidden_in_time() -> None:
    assert seconds(lambda text: Secrets.of([text]), "\n".join("a" * 70 + str(n) for n in range(20_000))) < 2.5


@pytest.mark.integration
def test_many_columns_of_a_csv_file_are_read_in_time(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(",".join(f"c{n}" for n in range(30_000)) + "\n", encoding="utf-8")
    config = FilesSourceConnector.config_def.parse({"topic": "t", "path": str(tmp_path)})
    assert seconds(lambda _: infer_columns(tmp_path / "a.csv", FilesSettings.of(config)), "") < 5
    config["schema"] = ", ".join(f"c{n} int" for n in range(30_000))
    assert seconds(lambda _: FilesSettings.of(config), "") < 5


@pytest.mark.integration
def test_many_topics_of_a_batch_are_renamed_in_time() -> None:
    batch = pa.record_batch([pa.array([f"t{n}" for n in range(30_000)])], ["topic"])
    assert seconds(lambda _: renamed(batch, str.upper), "") < 2.5


@pytest.mark.integration
def test_many_spellings_of_a_source_partition_are_read_in_time() -> None:
    spaces = [f"{number:b}".replace("0", " ").replace("1", "\t") for number in range(20_000)]
    records = [LogRecord(0, at, at, f'["c",{{"p":{space}1}}]'.encode(), b"{}") for at, space in enumerate(spaces)]
    start = time.process_time()
    fold(OffsetState(), records)
    assert time.process_time() - start < 2.5


@pytest.mark.integration
def test_requests_are_refused_in_time() -> None:
    with serving(FakeWorker(), replace(RestSettings(), listeners=LOCAL)) as server:
        def send(text: str) -> None:
            request = b"GET / HTTP/1.1\r\nHost: a\r\nX:" + text[:60_000].encode(errors="replace") + b"\r\n\r\n"
            with socket.create_connection(("127.0.0.1", ports_of(server)[0]), 60) as connection:
                connection.sendall(request)
                connection.recv(100)
        check(send)
