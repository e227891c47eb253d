"""/metrics of a real worker: metrics of a source, a sink and their plugins, which end with the connectors."""

from __future__ import annotations

import pytest

from tests.rigs.metrics import UNIT, promtool
from tests.rigs.scrape import get, metrics
from tests.rigs.support import wait_until
from tests.rigs.workers import SOON_S

pytestmark = pytest.mark.integration

SPARK_S = 120.0  # for Spark to start on a busy machine


def test_metrics_of_a_source_and_a_sink(rig):
    topic = rig.kafka.create("metered", 2)
    rig.create("meter-in", {"connector.class": "Metered", "topic": topic, "records": "40"})
    rig.wait_states("meter-in", ["RUNNING", "RUNNING"], SPARK_S)
    rig.create("meter-out", {"connector.class": "FileStreamSink", "topics": topic, "file": str(rig.folder / "out")})
    rig.create("meter-bad", {"connector.class": "FileStreamSink", "topics": topic, "file": str(rig.folder / "bad"),
                             "value.converter": "org.apache.kafka.connect.converters.LongConverter"})

    def all_moved() -> dict[tuple[str, ...], float]:
        found = metrics(rig)
        sink = "kafka_connect_sink_task_metrics_sink_record_"
        assert found.get((f"{sink}send_total", "meter-out", "0")) == 40
        assert found.get((f"{sink}lag_max", "meter-out", "0")) == 0
        assert found.get(("kafka_connect_source_task_metrics_source_record_write_total", "meter-in", "0")) == 40
        assert found.get(("heeler_task_state", "meter-bad", "0")) == 4
        assert found.get(("heeler_spark_up",)) == 1
        for name in ("meter-in", "meter-out"):
            assert ("heeler_task_last_commit_age_seconds", name, "0") in found
        return found

    found = wait_until(all_moved, SOON_S, "the figures of 40 records")
    client, name = "kafka_connect_connect_", f"connect-{rig.process.properties['group.id']}"
    assert 0 <= found[f"{client}coordinator_metrics_last_heartbeat_seconds_ago", name] < 10
    assert found[f"{client}coordinator_metrics_heartbeat_total", name] > 0
    assert found[f"{client}coordinator_metrics_join_time_max", name] >= 0
    assert found[f"{client}coordinator_metrics_failed_rebalance_total", name] >= 1, "the first has no id"
    assert found[f"{client}metrics_connection_count", name] >= 1
    assert found[f"{client}metrics_request_total", name] > found[f"{client}coordinator_metrics_heartbeat_total", name]
    assert found[f"{client}metrics_select_total", name] > 0
    assert [key for key in found if key[0] == f"{client}node_metrics_incoming_byte_total" and found[key] > 0]
    assert found["kafka_connect_app_info_version", name, "4.3.1"] == 1
    for phase in ("plan", "wait", "fetch", "decode", "convert", "write", "commit"):  # it has no transforms
        assert found[("heeler_task_phase_seconds_count", "meter-out", phase, "0")] >= 1, phase
    for phase in ("plan", "wait", "read", "convert", "transform", "write", "commit"):
        assert found[("heeler_task_phase_seconds_count", "meter-in", phase, "0")] >= 1, phase
    assert found[("heeler_task_errors_total", "meter-bad", "convert", "0")] == 1
    assert found[("heeler_sink_lag_records", "meter-bad", "0", "0", topic)] + found[
        ("heeler_sink_lag_records", "meter-bad", "1", "0", topic)] >= 1
    assert found[("heeler_task_bytes_total", "meter-out", "read", "0")] > 40
    assert found[("heeler_plugin_numbers_total", "meter-in", "even", "0")] == 20, "counted in executors"
    assert found[("heeler_plugin_limit", "meter-in")] == 40, "set by the connector"
    assert found[("kafka_connect_connect_worker_rebalance_metrics_completed_rebalances_total",)] >= 1
    assert found[("heeler_spark_memory_bytes", "jvm")] > 1e7
    assert promtool(get(rig, "/metrics?names=heeler")[2]) == [], "as documented for builds that check the page"
    complaints = promtool(get(rig, "/metrics")[2])
    assert complaints != []
    assert [line for line in complaints if not UNIT.fullmatch(line)] == []
    rig.call("POST", "/connectors/meter-in/tasks/0/restart")

    def restarted() -> bool:
        return metrics(rig).get(("heeler_task_restarts_total", "request", "meter-in", "0")) == 1

    wait_until(restarted, SOON_S, "a restart that is counted")
    for name in ("meter-in", "meter-out", "meter-bad"):
        rig.delete(name)
    wait_until(lambda: not [key for key in metrics(rig) if key[1:] and key[1].startswith("meter-")], SOON_S,
               "the end of the series")
    assert get(rig, "/metrics?names=nobody")[0] == 400
