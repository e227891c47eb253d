"""The settings of a task's Kafka clients."""

from __future__ import annotations

import os
import re
import stat
from datetime import timedelta
from pathlib import Path
from typing import Any

import javaproperties
import pytest

from spark_tasks.config.client_properties import WorkerClients, client_properties
from spark_tasks.errors import ConfigError
from spark_tasks.kafka.producer_settings import appender_options
from spark_tasks.kafka.task_clients import consumer_settings, isolation, reset_policy
from spark_tasks.spark.context import spark_settings
from spark_tasks.spark.security import authentication, python_sockets, write_properties

WORKER = {"bootstrap.servers": "a:9092", "group.id": "g", "security.protocol": "PLAINTEXT", "key.converter": "x"}


def test_consumer_settings_of_a_sink_task() -> None:
    properties = client_properties(WorkerClients.of({**WORKER, "consumer.session.timeout.ms": "9000"}), {}, "consumer")
    found = consumer_settings("c", 3, {"topics": " a, b ,a", "tasks.max": "2"}, properties)
    assert (found.group_id, found.topics, found.session_timeout_ms) == ("connect-c", ("a", "b"), 9000)
    assert (found.client_id, "client_id" in found.client) == ("connector-consumer-c-3", False)
    assert found.expects_others
    own = consumer_settings("c", 0, {"topics.regex": "logs-.*"}, {**properties, "group.id": "mine"})
    assert own.group_id == "mine"
    assert own.pattern is not None
    assert own.pattern.fullmatch("logs-a")


@pytest.mark.parametrize("connector", [{}, {"topics": "a", "topics.regex": "b"}, {"topics.regex": "("},
                                       {"topics": None, "topics.regex": None}])
def test_a_sink_needs_either_topics_or_a_valid_regex(connector: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=r"topics"):
        consumer_settings("c", 0, connector, WORKER)


def test_consumer_defaults_and_invalid_values() -> None:
    assert reset_policy({}) == "earliest"
    assert reset_policy({"auto.offset.reset": "Latest"}) == "latest"
    assert isolation({}) == "read_uncommitted"
    with pytest.raises(ConfigError, match=r"auto\.offset\.reset"):
        reset_policy({"auto.offset.reset": "sometimes"})
    with pytest.raises(ConfigError, match=r"session\.timeout\.ms"):
        consumer_settings("c", 0, {"topics": "t"}, {**WORKER, "session.timeout.ms": "soon"})


@pytest.mark.parametrize(("key", "value", "message"), [
    ("session.timeout.ms", "1_000", "Not a number of type INT"), ("session.timeout.ms", "0", "at least 1"),
    ("heartbeat.interval.ms", "3000000000", "Not a number of type INT"),
    ("exclude.internal.topics", "banana", "Expected value to be either true or false"),
    ("allow.auto.create.topics", "no", "Expected value to be either true or false"),
])
def test_properties_of_consumers_are_parsed_as_validation_parses_them(key: str, value: str, message: str) -> None:
    """Any text but false was true, and Python's numbers are not Java's."""
    with pytest.raises(ConfigError, match=rf"^Invalid value {value} for configuration {re.escape(key)}: .*{message}"):
        consumer_settings("c", 0, {"topics": "t"}, {**WORKER, key: value})
    usual = consumer_settings("c", 0, {"topics": "t"}, WORKER)
    assert consumer_settings("c", 0, {"topics": "t"}, {**WORKER, key: " "}) == usual


@pytest.mark.parametrize("properties", [
    {"enable.idempotence": "banana"}, {"max.request.size": "1_000"}, {"delivery.timeout.ms": "3000000000"},
])
def test_properties_of_producers_are_parsed_as_validation_parses_them(properties: dict[str, str]) -> None:
    [(key, value)] = properties.items()
    with pytest.raises(ConfigError, match=rf"^Invalid value {value} for configuration {re.escape(key)}: "):
        appender_options(properties)
    assert appender_options({key: " "}) == appender_options({})


def test_an_appender_is_idempotent_unless_configured_otherwise() -> None:
    options, idempotent = appender_options({"compression.type": "zstd", "max.request.size": "5000"})
    assert idempotent
    assert options["compression"] == "zstd"
    assert options["max_request_bytes"] == 5000
    assert options["acks"] == -1
    assert appender_options({"enable.idempotence": "false"})[1] is False
    assert appender_options({"acks": "1", "max.in.flight.requests.per.connection": "9"}) == (
        {"acks": 1, "compression": None, "max_request_bytes": 1_048_576, "in_flight": 9}, False,
    )  # fmt: skip
    for bad in ({"acks": "2"}, {"compression.type": "rar"}):
        with pytest.raises(ConfigError):
            appender_options(bad)


@pytest.mark.parametrize(("settings", "folder", "enabled"), [
    ({}, "/t", "true"), ({}, "/" + "x" * 59, "true"), ({}, "/" + "x" * 60, "false"),
    ({"spark.master": "local[2]"}, "/t", "true"), ({"spark.master": "spark://h:1"}, "/t", "false"),
    ({"spark.python.unix.domain.socket.dir": "/" + "x" * 60}, "/t", "false"),
    ({"spark.python.unix.domain.socket.enabled": "false"}, "/t", None),
])
def test_unix_sockets_have_no_secret_and_are_in_a_private_folder(
    settings: dict[str, str], folder: str, enabled: str | None
) -> None:
    found = python_sockets(settings, Path(folder))
    assert found.get("spark.python.unix.domain.socket.enabled") == enabled
    assert found.get("spark.python.unix.domain.socket.dir") == (folder if enabled == "true" else None)


@pytest.mark.parametrize("master", [None, "local", "local[3]", "local-cluster[2,1,1024]"])
def test_a_local_spark_has_a_new_secret_at_each_start(master: str | None) -> None:
    worker = {"spark.master": master} if master else {}
    first, second = spark_settings(worker), spark_settings(worker)
    assert first["spark.authenticate"] == "true"
    assert len({s["spark.authenticate.secret"] for s in (first, second)}) == 2
    assert len(first["spark.authenticate.secret"]) == 64


def test_a_cluster_without_a_secret_is_refused() -> None:
    with pytest.raises(ConfigError, match=r'"spark\.authenticate\.secret" for spark\.master=spark://h:1: '):
        spark_settings({"spark.master": "spark://h:1"})
    with pytest.raises(ConfigError, match=r"set spark\.authenticate=false"):
        spark_settings({"spark.master": "spark://h:1", "spark.authenticate": "true"})
    found = spark_settings({"spark.master": "spark://h:1", "spark.authenticate": "false"})
    assert found["spark.authenticate"] == "false"
    assert "spark.network.crypto.enabled" not in found
    assert authentication({"spark.authenticate": "FALSE "}) == {}


@pytest.mark.parametrize("own", [
    {"spark.master": "yarn"}, {"spark.master": "k8s://https://h"},
    {"spark.master": "spark://h:1", "spark.authenticate.secret": "s"},
])
def test_traffic_with_a_spark_cluster_is_encrypted(own: dict[str, str]) -> None:
    found = spark_settings(own)
    assert (found["spark.authenticate"], found["spark.network.crypto.enabled"]) == ("true", "true")
    assert found.get("spark.authenticate.secret") == own.get("spark.authenticate.secret")
    tls = spark_settings({**own, "spark.ssl.rpc.enabled": "true"})
    assert "spark.network.crypto.enabled" not in tls
    assert spark_settings({**own, "spark.network.crypto.enabled": "false"})["spark.network.crypto.enabled"] == "false"


def test_settings_reach_spark_in_a_file_for_its_user_only(tmp_path: Path) -> None:
    file = tmp_path / "settings"
    settings = {"spark.a": " \\ é=\n#", "spark.hadoop.fs.s3a.secret.key": "s"}
    before = os.umask(0)
    try:
        write_properties(settings, file)
    finally:
        os.umask(before)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert javaproperties.loads(file.read_text()) == settings
    with pytest.raises(FileExistsError):
        write_properties(settings, file)


@pytest.mark.parametrize(("text", "seconds"), [
    ("PT1H", 3600), ("p2dt3h4m5.5s", 2 * 86400 + 3 * 3600 + 4 * 60 + 5.5), ("P1D", 86400), ("PT0S", 0)])
def test_reading_may_start_a_duration_ago(text, seconds):
    """KIP-1106. Java's workers accept it; the tasks failed."""
    assert reset_policy({"auto.offset.reset": f"by_duration:{text}"}) == timedelta(seconds=seconds)


@pytest.mark.parametrize("text", ["", "P", "PT", "P1DT", "1H", "PT-1H", "P1Y", "PT 1H"])
def test_other_durations_are_refused(text):
    with pytest.raises(ConfigError, match=r"auto\.offset\.reset: .* is not a duration of the form"):
        reset_policy({"auto.offset.reset": f"by_duration:{text}"})
