"""/metrics of a worker: Kafka Connect's names and heeler's own, no series of deleted items, hostile names."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from kafka.coordinator.base import GroupCoordinatorMetrics
from kafka.net.metrics import KafkaConnectionMetrics, KafkaManagerMetrics
from prometheus_client.parser import text_string_to_metric_families

from actors.assignment.protocol import Allocation, Assignment, Membership, Protocol
from actors.herder.instance import Instance, RestartCause, Stopping
from actors.herder.standing import Joining, Loading, Resolved, Syncing, member_of
from actors.instances.scaler import Scaled
from actors.messages.correlation_ids import Epoch
from heeler.worker.metrics import connect_metrics
from heeler.worker.metrics.observed import Observed, cause_of
from heeler.worker.metrics.registry import JAVA, OWN
from heeler.worker.metrics.rows import STATES
from heeler.worker.metrics.text import Kept, Page
from spark_tasks.kafka.client_metrics import ClientMetrics, figures
from spark_tasks.metrics.engine import EngineFigures
from spark_tasks.metrics.plugins import MAX_SERIES
from storage.config.state import ClusterConfigState
from storage.ids import ConnectorName, ConnectorTaskId, ItemId, State, TargetState
from storage.status.state import Restarts
from tests.rigs.metrics import ME, OTHER, STATE, UNIT, Cluster, busy, promtool


def samples(page: str) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    return {(s.name, tuple(sorted(s.labels.items()))): s.value
            for family in text_string_to_metric_families(page) for s in family.samples}


@pytest.fixture
def cluster() -> Cluster:
    return made()


def made() -> Cluster:
    cluster = Cluster()
    cluster.has("src", State.RUNNING, State.FAILED)
    cluster.has("out", State.PAUSED)
    busy(cluster, "src", 0, "source")
    busy(cluster, "out", 0, "sink")
    cluster.metrics.connector(ConnectorName("src")).gauge("tables").set(3)
    cluster.metrics.queues = lambda: ({"herder": 2}, {ConnectorTaskId(ConnectorName("src"), 0): 1})
    client = client_metrics()
    cluster.metrics.client = lambda: figures(client)
    cluster.metrics.client_id = "connect-1"
    cluster.metrics.app_info = {"version": "4.3.1", "commit-id": "heeler"}
    cluster.metrics.engine = lambda: EngineFigures(up=True, slots=2, batches=9, waiting=1, running=1)
    return cluster


def client_metrics() -> ClientMetrics:
    """Those of a member that has spoken to a broker, with the library's own sensors."""
    made = ClientMetrics()
    KafkaManagerMetrics(made, "connect", {})
    KafkaConnectionMetrics(made, "connect", 1)
    GroupCoordinatorMetrics(SimpleNamespace(last_send=float("-inf")), made, "connect")
    made.selector().close()
    return made


# What the Kafka client of the group member does not tell of: authentications. Versions are told where plugins have one.
NOT_TOLD = re.compile(r"kafka_connect_connect_metrics_((failed|successful)_(re)?authentication|reauthentication)_.*")
JAVA_NAMES = json.loads((Path(__file__).parents[4] / "golden" / "metrics" / "java.json").read_text())


def test_every_metric_of_a_java_worker_exists(cluster):
    """By the names that a worker of Java Kafka Connect 4.3.1 has by JMX (tests/golden/metrics)."""
    cluster.state = replace(cluster.state, standing=Resolved(member_of(_membership())))
    cluster.follow()
    labels: dict[str, set[str]] = {}
    for name, pairs in samples(cluster.metrics.page({JAVA})):
        labels.setdefault(name, set()).update(key for key, _ in pairs)
    missing, unlabeled = set(), set()
    for group, by_keys in JAVA_NAMES.items():
        for keys, attributes in by_keys.items():
            if keys in ("id", "client-id") and group == "app-info" and "Version" in attributes:
                continue  # the same by another name
            for attribute in attributes:
                name = connect_metrics.name_of(group, attribute)
                if name not in labels:
                    missing.add(name)
                elif not {key.replace("-", "_") for key in keys.split(",") if key} <= labels[name]:
                    unlabeled.add(name)
    assert {name for name in missing if not NOT_TOLD.fullmatch(name)} == set()
    assert [name for name in labels if NOT_TOLD.fullmatch(name)] == [], "told, so no exception any more"
    assert unlabeled == set()


# Kafka Connect's metrics, by their own names.
GROUPS = {
    "connect-worker-metrics": """connector-count task-count connector-startup-attempts-total
        connector-startup-success-total connector-startup-success-percentage connector-startup-failure-total
        connector-startup-failure-percentage task-startup-attempts-total task-startup-success-total
        task-startup-success-percentage task-startup-failure-total task-startup-failure-percentage
        connector-total-task-count connector-running-task-count connector-paused-task-count
        connector-failed-task-count connector-unassigned-task-count connector-destroyed-task-count
        connector-restarting-task-count""",
    "connect-worker-rebalance-metrics": """connect-protocol leader-name epoch completed-rebalances-total rebalancing
        rebalance-max-time-ms rebalance-avg-time-ms time-since-last-rebalance-ms""",
    "connect-metrics": "connection-count",
    "connect-coordinator-metrics": """assigned-connectors assigned-tasks heartbeat-rate rebalance-total
        rebalance-rate-per-hour rebalance-latency-avg rebalance-latency-max
        rebalance-latency-total last-rebalance-seconds-ago""",
    "connector-metrics": "status connector-type connector-class connector-version",
    "connector-task-metrics": """status running-ratio pause-ratio offset-commit-max-time-ms offset-commit-avg-time-ms
        batch-size-max batch-size-avg offset-commit-failure-percentage offset-commit-success-percentage
        connector-class connector-type connector-version task-class task-version key-converter-class
        key-converter-version value-converter-class value-converter-version header-converter-class
        header-converter-version""",
    "connector-transform-metrics": "transform-class transform-version",
    "connector-predicate-metrics": "predicate-class predicate-version",
    "source-task-metrics": """source-record-poll-rate source-record-poll-total source-record-write-rate
        source-record-write-total poll-batch-max-time-ms poll-batch-avg-time-ms source-record-active-count
        source-record-active-count-max source-record-active-count-avg transaction-size-min transaction-size-max
        transaction-size-avg""",
    "sink-task-metrics": """sink-record-read-rate sink-record-read-total sink-record-send-rate sink-record-send-total
        sink-record-lag-max partition-count offset-commit-seq-no offset-commit-completion-rate
        offset-commit-completion-total offset-commit-skip-rate offset-commit-skip-total put-batch-max-time-ms
        put-batch-avg-time-ms sink-record-active-count sink-record-active-count-max sink-record-active-count-avg""",
    "task-error-metrics": """total-record-failures total-record-errors total-records-skipped total-retries
        total-errors-logged deadletterqueue-produce-requests deadletterqueue-produce-failures last-error-timestamp""",
}


def test_every_metric_of_kafka_connect_exists(cluster):
    cluster.state = replace(cluster.state, standing=Resolved(member_of(_membership())))
    cluster.follow()
    found = {name for name, _ in samples(cluster.metrics.page({JAVA}))}
    wanted = {connect_metrics.name_of(group, attribute) for group, words in GROUPS.items()
              for attribute in words.split()}
    assert wanted - found == set()


def _membership():
    mine = Assignment(leader="m", leader_url="http://me:8083/", config_offset=1, assigned=Allocation(),
                      revoked=Allocation())
    return Membership(3, "m", Protocol.SESSIONED, mine)


def test_a_tasks_classes_and_versions_are_metrics(cluster):
    """As Java 4.3.1 reports them; the header converter is the default one if none is configured."""
    page = cluster.metrics.page({JAVA})
    of = 'connector="src",task="0",worker="me:8083"'
    for attribute, value in (
            ("connector_class", "C"), ("connector_version", "7"), ("connector_type", "source"), ("task_class", "T"),
            ("task_version", "8"), ("value_converter_class", "V"), ("value_converter_version", "CONVERTER V [1,2)"),
            ("key_converter_version", "CONVERTER K None"),
            ("header_converter_class", "org.apache.kafka.connect.storage.SimpleHeaderConverter")):
        assert f'kafka_connect_connector_task_metrics_{attribute}{{{of},{attribute}="{value}"}} 1\n' in page


def test_a_class_that_was_not_imported_in_time_is_shown_later(cluster):
    cluster.kind = "unknown"
    assert 'connector_type="unknown"' in cluster.metrics.page({JAVA})
    cluster.kind, cluster.known_facts = "source", cluster.known_facts + 1
    assert 'connector_type="unknown"' not in cluster.metrics.page({JAVA})


def test_transforms_and_the_predicates_that_they_have_are_metrics(cluster):
    page = cluster.metrics.page({JAVA})
    name = r"kafka_connect_connector_(?:transform|predicate)_metrics_\w+"
    assert re.findall(f'^{name}{{connector="src",task="0",worker="me:8083",(.*)}} 1$', page, re.MULTILINE) == [
        'transform="a",transform_class="A"', 'transform="b",transform_class="B"',
        'transform="a",transform_version="TRANSFORMATION A None"',
        'transform="b",transform_version="TRANSFORMATION B 3"',
        'predicate="p",predicate_class="P"', 'predicate="p",predicate_version="PREDICATE P None"']


def test_fractions_of_commits_add_up_to_one(cluster):
    """A skipped commit is neither a success nor a failure, as in Kafka Connect."""
    task = busy(cluster, "out", 0, "sink")
    for count in (task.commit_failed, task.commit_skipped, task.commit_skipped):
        count()
    found = samples(cluster.metrics.page({JAVA}))
    place = (("connector", "out"), ("task", "0"), ("worker", ME))
    name = "kafka_connect_connector_task_metrics_offset_commit_{}_percentage"
    assert [found[name.format(how), place] for how in ("success", "failure")] == [0.5, 0.5]


def test_heelers_own_metrics_have_their_values(cluster):
    found = samples(cluster.metrics.page({OWN}))
    src = (("connector", "src"), ("task", "0"), ("worker", ME))
    out = (("connector", "out"), ("task", "0"), ("worker", ME))

    def of(name, labels, **more):
        return found[(name, tuple(sorted([*labels, *more.items()])))]

    assert of("heeler_task_state", (src[0], ("task", "1"), src[2])) == 4, "it failed before it had any figures"
    assert of("heeler_task_state", out) == 2
    assert of("heeler_connector_state", (src[0], src[2])) == 1
    assert of("heeler_sink_lag_records", out, topic="topic", partition="1") == 7
    assert of("heeler_task_records_total", src, stage="write") == 9
    assert of("heeler_task_bytes_total", src, stage="read") == 100
    assert of("heeler_task_errors_total", src, stage="commit") == 1
    assert of("heeler_task_phase_seconds_sum", src, phase="write") == 0.5
    assert of("heeler_task_phase_seconds_count", src, phase="commit") == 1
    assert of("heeler_task_last_commit_age_seconds", src) < 100
    assert of("heeler_plugin_rows_skipped_total", src, table="t") == 2
    assert of("heeler_plugin_tables", (src[0], src[2])) == 3
    assert of("heeler_task_queue_length", src) == 1
    assert found[("heeler_actor_queue_length", (("actor", "herder"), ("worker", ME)))] == 2
    assert found[("heeler_spark_batches_total", (("worker", ME),))] == 9
    assert found[("process_cpu_seconds_total", ())] > 0


def test_counters_of_errors_and_restarts_begin_with_zero(cluster):
    found = samples(cluster.metrics.page([OWN]))
    causes = {dict(place)["cause"] for name, place in found if name == "heeler_task_restarts_total"}
    assert causes == {"failure", "stall", "request", "config", "rebalance"}
    assert {value for (name, _), value in found.items() if name.endswith("_restarts_total")} == {0}
    stages = {(dict(place)["connector"], dict(place)["stage"]): value for (name, place), value in found.items()
              if name == "heeler_task_errors_total"}
    after = {"convert": 0, "transform": 0, "write": 0, "commit": 1, "task": 0}
    assert stages == {**{("src", stage): count for stage, count in {"read": 0, **after}.items()},
                      **{("out", stage): count for stage, count in {"fetch": 0, "decode": 0, **after}.items()}}


def test_metrics_of_plugins_with_names_that_collide_are_shown_once(cluster):
    for number, connector in enumerate(("src", "out")):
        plugin = cluster.metrics.connector(ConnectorName(connector))
        plugin.counter("dropped", "\ud800 rows").inc()
        for name in ("rows", "rows_total", "time", "time_sum", "time_count")[:: 1 - 2 * number]:
            plugin.gauge(name).set(1)
            plugin.counter(name).inc()
            plugin.summary(name).observe(1)
        for series in range(MAX_SERIES):
            plugin.gauge("many", number=series).set(1)
    page = cluster.metrics.page({OWN})
    shown = re.findall(r"^(heeler_plugin_\S+) ", page, re.MULTILINE)
    assert len(shown) == len(set(shown)) > MAX_SERIES
    assert "# HELP heeler_plugin_dropped_total ? rows\n" in page
    types = re.findall(r"^# TYPE (heeler_plugin_\S+)", page, re.MULTILINE)
    assert len(types) == len(set(types))


def test_series_end_with_their_connector_or_task(cluster):
    cluster.drop("src")
    page = cluster.metrics.page()
    assert 'connector="src"' not in page
    cluster.has("src", State.RUNNING)
    page = cluster.metrics.page({OWN})
    assert samples(page)[("heeler_task_state", (("connector", "src"), ("task", "0"), ("worker", ME)))] == 1
    assert not re.search('heeler_task_records_total{.*connector="src"', page), "figures of the one that is gone"


def test_items_of_other_workers_are_not_reported(cluster):
    cluster.has("far", State.RUNNING, worker=OTHER)
    assert 'connector="far"' not in cluster.metrics.page()


@given(st.text(min_size=1, max_size=20), st.text(max_size=20))
@example('say "so"\n', "\n\\n")
@example("\\", '\\"} 1\r\u2028')
def test_hostile_names_stay_labels(name, topic):
    cluster = Cluster()
    cluster.has(name, State.RUNNING)
    busy(cluster, name, 0, "sink").lags = {(topic, 0): 3}
    lines = cluster.metrics.page({OWN}).split("\n")
    (lag,) = [line for line in lines if line.startswith("heeler_sink_lag_records{")]
    labels = dict(re.findall(r'(\w+)="((?:[^"\\]|\\.)*)"', lag))
    read = [re.sub(r"\\(.)", lambda found: "\n" if found[1] == "n" else found[1], labels[key])
            for key in ("connector", "topic")]
    assert read == [value.encode("utf-8", "replace").decode() for value in (name, topic)]
    assert all(re.fullmatch(r"(# .*|[a-z_0-9]+(\{.*\})? \S+|)", line) for line in lines)


def test_restarts_have_a_cause():
    seen, item, name = Observed(), ConnectorTaskId(ConnectorName("a"), 0), ConnectorName("a")
    store = ClusterConfigState(connector_configs={name: {}}, target_states={name: TargetState.STARTED})
    running = Instance(Epoch(1), State.RUNNING)
    histories = [
        (running, "rebalance"), (replace(running, stopping=Stopping(RestartCause.RESTART)), "request"),
        (replace(running, stopping=Stopping(RestartCause.REPLACEMENT)), "config"),
    ]
    assert [cause_of(instance) for instance, _ in histories] == [cause for _, cause in histories]
    one = frozenset({item})

    def follow(store: ClusterConfigState, instances: Mapping[ItemId, Instance]) -> None:
        seen.follow(replace(STATE, store=store, instances=instances, changed=one), 0.0)

    for epoch, last in ((2, histories[1][0]), (3, histories[2][0])):
        follow(store, {item: last})
        follow(store, {item: Instance(Epoch(epoch))})
        follow(store, {item: Instance(Epoch(epoch), State.FAILED)})
    follow(store, {})
    follow(store, {item: running})
    assert sum(seen.restarts[item].values()) == len(seen.restarts[item]) + 1
    assert (seen.task_starts.failed, seen.task_starts.succeeded) == (2, 3)
    stopped = replace(store, target_states={name: TargetState.STOPPED})
    follow(stopped, {})
    assert seen.restarts == {}, "started anew by its user: no restart"


def test_rebalances_are_counted_with_their_duration():
    seen, member = Observed(), member_of(_membership())
    for now, standing in enumerate((Loading(), Joining(), Syncing(member), Resolved(member), Resolved(member))):
        seen.follow(replace(STATE, standing=standing), float(now))
    assert (seen.rebalances.count, seen.rebalances.seconds, seen.rebalances.begun) == (1, 2.0, None)


def test_promtool_accepts_heelers_names(cluster):
    assert promtool(cluster.metrics.page({OWN})) == []


def test_promtool_complains_only_about_units_in_kafka_connects_names(cluster):
    """Dashboards for Kafka Connect want them by these names."""
    assert [line for line in promtool(cluster.metrics.page()) if not UNIT.fullmatch(line)] == []


def test_promtool_finds_errors():
    assert promtool("# TYPE heeler_x_total gauge\nheeler_x_total 1\n") != []


def test_stalled_tasks_are_a_metric(cluster):
    found = ConnectorTaskId(ConnectorName("src"), 0)
    cluster.metrics.stalled = lambda: {found, ConnectorTaskId(ConnectorName("abandoned"), 0)}
    stalled = {labels: value for (name, labels), value in samples(cluster.metrics.page({OWN})).items()
               if name == "heeler_task_stalled"}
    assert stalled[(("connector", "src"), ("task", "0"), ("worker", ME))] == 1
    assert sum(stalled.values()) == 1
    assert len(stalled) > 1


def test_planned_restarts_and_permanent_failures_are_metrics(cluster):
    """They show when the next restart is due and which failures a restart cannot fix, only for items with a policy."""
    cluster.has("bad", State.FAILED, State.FAILED, State.RUNNING, restarts=[
        Restarts(0, "refused", permanent=True), Restarts(3, "away", 1_795_453_200_500), None])
    page = cluster.metrics.page({OWN})
    found = {(name, dict(labels)["task"]): value for (name, labels), value in samples(page).items()
             if re.fullmatch("heeler_task_(failure_permanent|next_restart_timestamp_seconds)", name)}
    assert found == {("heeler_task_failure_permanent", "0"): 1, ("heeler_task_failure_permanent", "1"): 0,
                     ("heeler_task_next_restart_timestamp_seconds", "1"): 1_795_453_200.5}
    [connector] = [value for (name, _), value in samples(page).items() if name == "heeler_connector_failure_permanent"]
    assert connector == 1
    assert promtool(page) == []


def test_the_documentation_lists_the_numbers_of_all_states():
    page = (Path(__file__).parents[5] / "docs" / "operations.md").read_text()
    [row] = [line for line in page.splitlines() if line.startswith("| `heeler_connector_state`")]
    assert re.findall(r"(\d) (\w+)", row) == [(str(n), state.value.lower()) for state, n in STATES.items()]


def test_connectors_that_scale_by_lag_have_metrics(cluster):
    cluster.metrics.scaling = lambda: {ConnectorName("out"): Scaled(3, 700), ConnectorName("src"): Scaled(2, None),
                                       ConnectorName("gone"): Scaled(9, 9)}
    page = cluster.metrics.page({OWN})
    found = {(name, dict(labels)["connector"]): value for (name, labels), value in samples(page).items()
             if name in ("heeler_connector_tasks_wanted", "heeler_connector_lag_records")}
    assert found == {("heeler_connector_tasks_wanted", "out"): 3, ("heeler_connector_tasks_wanted", "src"): 2,
                     ("heeler_connector_lag_records", "out"): 700}
    assert promtool(page) == []


def _changed(cluster: Cluster, step: int, now: float) -> None:
    """Something else each time: values, their types, labels, tasks and connectors that come and go."""
    if step == 1:
        cluster.has("50%s", State.RUNNING, State.RUNNING)
        busy(cluster, "50%s", 1, "sink").lags = {('a"b', 0): 10 ** 20}
    elif step == 2:
        busy(cluster, "src", 0, "source").batch_sizes.add(float("inf"), now)
    elif step == 3:
        found = cluster.metrics.task(ConnectorTaskId(ConnectorName("50%s"), 1))
        found.add_phase("transform", 0.25)
        found.last["error"] = now
        found.last_error_ms = 0.0  # 0 in the total becomes 0.0
    elif step == 4:
        cluster.metrics.task(ConnectorTaskId(ConnectorName("out"), 0))
    elif step == 5:
        cluster.config = replace(cluster.config, connector_configs={
            **cluster.config.connector_configs, ConnectorName("src"): {"connector.class": "New"}})
    elif step == 6:
        cluster.has("src", State.FAILED)
    elif step == 7:
        cluster.drop("out")


def without_process(cluster: Cluster) -> str:
    """The page up to the figures of this process, which change."""
    page, begun, _ = cluster.metrics.page().partition("# HELP process_")
    assert begun
    return page


def stop_clocks(monkeypatch: pytest.MonkeyPatch, monotonic: float, wall: float = 1_800_000_000.0) -> None:
    monkeypatch.setattr("time.time", lambda: wall)
    monkeypatch.setattr("time.time_ns", lambda: int(wall * 1_000_000_000))
    monkeypatch.setattr("time.monotonic", lambda: monotonic)


@pytest.mark.parametrize("step", [-86_400.0, 86_400.0])
def test_setting_the_machines_clock_changes_no_metric(monkeypatch, step):
    stop_clocks(monkeypatch, 1000.0)
    cluster = made()
    before = without_process(cluster)
    assert 'kafka_connect_task_error_metrics_last_error_timestamp{connector="src",task="0"' in before
    assert " 1800000000000\n" in before
    stop_clocks(monkeypatch, 1000.0, 1_800_000_000.0 + step)
    assert without_process(cluster) == before


def test_a_page_made_from_parts_of_the_last_one_is_as_if_made_anew(monkeypatch):
    now = 1000.0
    stop_clocks(monkeypatch, now)
    cluster, shown = made(), set()
    for step in range(8):
        _changed(cluster, step, now)
        page, again = without_process(cluster), without_process(cluster)
        anew = made()
        for earlier in range(step + 1):
            _changed(anew, earlier, now)
        assert page == again == without_process(anew), step
        shown.add(page)
    assert len(shown) == 8


def test_what_is_not_new_is_not_formatted_again():
    kept = Kept()
    first, second, third, fourth = Page(kept), Page(kept), Page(kept), Page(kept)
    first.column("m", "gauge", "M.", ['a="1"', 'a="2"'], [0, 1.5])
    second.column("m", "gauge", "M.", ['a="1"', 'a="2"'], [0, 2.5])
    third.column("m", "gauge", "M.", ['a="1"', 'a="2"'], [0.0, 2.5])
    fourth.column("m", "gauge", "M.", ['a="1"', 'a="%s"'], [float("nan"), float("inf")])
    assert [page.text().splitlines()[2:] for page in (first, second, third, fourth)] == [
        ['m{a="1"} 0', 'm{a="2"} 1.5'], ['m{a="1"} 0', 'm{a="2"} 2.5'], ['m{a="1"} 0.0', 'm{a="2"} 2.5'],
        ['m{a="1"} NaN', 'm{a="%s"} +Inf']]
