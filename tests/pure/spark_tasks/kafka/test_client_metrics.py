"""The metrics of the group member's Kafka client, with the library's own sensors."""

from __future__ import annotations

import os
import selectors

import pytest
from kafka.coordinator.base import GroupCoordinatorMetrics
from kafka.metrics.measurable import AnonMeasurable
from kafka.net.metrics import KafkaConnectionMetrics, KafkaManagerMetrics

from spark_tasks.kafka.client_metrics import ClientMetrics, figures


@pytest.fixture
def metrics():
    return ClientMetrics()


def values(metrics, group):
    return {figure.attribute: figure.value for figure in figures(metrics)
            if figure.group == group and not figure.tags}


def test_totals_are_added_to_the_librarys_rates(metrics):
    manager = KafkaManagerMetrics(metrics, "connect", {1: None, 2: None})
    connections = [KafkaConnectionMetrics(metrics, "connect", node) for node in (1, 2)]
    manager.connection_created.record()
    manager.connection_created.record()
    manager.connection_closed.record()
    for connection, size in zip(connections, (100, 20), strict=True):
        connection.bytes_sent.record(size)
        connection.bytes_received.record(2 * size)
        connection.request_time.record(7)
    connections[0].bytes_sent.record(5)
    found = values(metrics, "connect-metrics")
    totals = {name: value for name, value in found.items() if name.endswith(("-total", "-count"))}
    assert totals == {
        "connection-count": 2, "connection-creation-total": 2, "connection-close-total": 1, "network-io-total": 5,
        "outgoing-byte-total": 125, "request-total": 3, "incoming-byte-total": 240, "response-total": 2}
    assert {name.replace("-total", "-rate") for name in totals if name != "connection-count"} <= set(found)
    nodes = {(figure.attribute, figure.tags["node_id"]): figure.value for figure in figures(metrics) if figure.tags}
    assert nodes["outgoing-byte-total", "node-1"] == 105
    assert nodes["request-total", "node-2"] == 1
    assert nodes["request-latency-max", "node-2"] == 7
    assert {figure.group for figure in figures(metrics) if figure.tags} == {"connect-node-metrics"}


def test_group_metrics_have_kafkas_names(metrics):
    class Heartbeat:
        last_send = float("-inf")

    group = GroupCoordinatorMetrics(Heartbeat(), metrics, "connect")
    group.join_latency.record(10)
    group.sync_latency.record(1)
    group.heartbeat_latency.record(1)
    group.heartbeat_latency.record(3)
    metrics.failed()
    found = values(metrics, "connect-coordinator-metrics")
    assert (found["join-total"], found["sync-total"], found["heartbeat-total"]) == (1, 1, 2)
    assert found["failed-rebalance-total"] == 1
    assert found["failed-rebalance-rate-per-hour"] > 1
    assert found["last-heartbeat-seconds-ago"] == -1, "there was none"


def test_the_time_in_select_is_measured(metrics):
    reading, writing = os.pipe()
    selector = metrics.selector()
    try:
        selector.register(reading, selectors.EVENT_READ)
        assert selector.select(0.02) == []
        os.write(writing, b"x")
        assert [key.fd for key, _ in selector.select(10)] == [reading]
    finally:
        selector.close()
        os.close(reading)
        os.close(writing)
    found = values(metrics, "connect-metrics")
    assert found["select-total"] == 2
    assert found["io-wait-time-ns-total"] >= 1e7
    assert found["io-time-ns-total"] > 0
    assert 0 < found["io-wait-ratio"] < 1
    assert found["io-wait-time-ns-avg"] == pytest.approx(found["io-wait-time-ns-total"] / 2)


def test_other_metrics_are_left_out(metrics):
    some = AnonMeasurable(lambda _config, _now: 1.0)
    metrics.add_metric(metrics.metric_name("x", "other-metrics"), some)
    metrics.add_metric(metrics.metric_name("y", "connect-metrics", tags={"a": "b"}), some)
    assert {figure.group for figure in figures(metrics)} == {"connect-coordinator-metrics", "kafka-metrics-count"}
