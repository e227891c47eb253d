"""What the recorded responses do not cover: timeouts, the start, special names, CORS, headers, admin endpoints,
KIP-995.
"""

from __future__ import annotations

from dataclasses import replace
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st
from werkzeug.test import Client

from actors.errors import BadRequestError, RebalanceNeededError, TimedOutError
from actors.messages.requests import AlterOffsets, PutConnector, PutTaskConfigs, RequestStage, SetClusterLoggerLevel
from rest.server.settings import RestSettings
from spark_tasks.errors import ConfigError, ConnectError, PluginExitError
from storage.ids import ConnectorName, ConnectorTaskId, State, TargetState, TopicName
from storage.status.state import Restarts, Stall, Status, StatusState, TopicStatus
from tests.rigs.fake_herder import WORKER, FakeWorker
from tests.rigs.fake_plugins import FILE
from tests.rigs.rest_apps import admin_app_of, client_of, rest_settings

SOURCE = {"connector.class": FILE + "FileStreamSourceConnector", "topic": "t"}
HASTY = replace(RestSettings(), request_timeout_s=0.02, health_timeout_s=0.02)


def settings(**props: str) -> RestSettings:
    return rest_settings({key.replace("_", "."): value for key, value in props.items()})


# ---------------------------------------------------------------- health, startup, timeouts
def test_a_timed_out_request_names_the_stage() -> None:
    worker = FakeWorker(silent=True, stage=RequestStage("flushing updates to the status topic", 1_800_000_000_000))
    answer = client_of(worker, HASTY).get("/connectors/a")
    assert answer.status_code == 500
    assert answer.json == {"error_code": 500, "message": (
        "Request timed out. The worker is currently flushing updates to the status topic, which began at "
        "2027-01-15T08:00:00Z.")}


def test_a_timed_out_request_names_the_completed_stage() -> None:
    worker = FakeWorker(silent=True, stage=RequestStage("polling", 1_800_000_000_001, 1_800_000_000_120))
    answer = client_of(worker, HASTY).delete("/connectors/a")
    assert answer.json is not None
    assert answer.json["message"] == (
        "Request timed out. The last operation the worker completed was polling, which began at "
        "2027-01-15T08:00:00.001Z and completed at 2027-01-15T08:00:00.120Z.")


@pytest.mark.parametrize(("started", "code", "status", "words"), [
    (False, 503, "starting", "Worker is still starting up. The worker is currently polling"),
    (True, 500, "unhealthy", "Worker was unable to handle this request and may be unable to handle other requests."),
])
def test_health_of_a_herder_that_does_not_answer(started: bool, code: int, status: str, words: str) -> None:
    worker = FakeWorker(silent=True, started=started)
    answer = client_of(worker, HASTY).get("/health")
    assert answer.json is not None
    assert (answer.status_code, answer.json["status"]) == (code, status)
    assert answer.json["message"].startswith(words)


def test_health_names_the_tasks_that_are_not_well() -> None:
    worker = FakeWorker()
    assert client_of(worker).get("/health").json == {
        "status": "healthy", "message": "Worker has completed startup and is ready to handle requests."}
    worker.troubles = ["a-0: a split has been running for 75 s"]
    answer = client_of(worker).get("/health")
    assert answer.status_code == 200
    assert answer.json is not None
    assert (answer.json["status"], answer.json["degraded"]) == ("healthy", worker.troubles)


def test_health_names_the_tasks_whose_plugins_wait_but_not_as_degraded() -> None:
    worker = FakeWorker()
    worker.patient = ["a-0: poll has been waiting since 2026-11-30T05:00:00Z"]
    assert client_of(worker).get("/health").json == {
        "status": "healthy", "message": "Worker has completed startup and is ready to handle requests.",
        "waiting": worker.patient}


def test_until_kafka_is_reached_every_path_but_health_is_404() -> None:
    worker = FakeWorker(kafka_cluster_id=None, started=False, stage=None)
    client = client_of(worker)
    for path in ("/", "/connectors", "/connectors/a/status", "/connector-plugins", "/admin/loggers"):
        assert client.get(path).status_code == 404
    health = client.get("/health")
    assert health.status_code == 503
    assert health.json == {"status": "starting", "message": "Worker is still starting up."}
    assert worker.asked == []


# ---------------------------------------------------------------- errors
def test_a_read_during_a_rebalance_is_500_and_a_write_409() -> None:
    message = "Request cannot be completed because a rebalance is expected"
    worker = FakeWorker(redirect=RebalanceNeededError(message))
    client = client_of(worker)
    for path in ("/connectors/a", "/connectors/a/config", "/connectors/a/tasks"):
        assert client.get(path).json == {"error_code": 500, "message": message}
    writes = [client.delete("/connectors/a"), client.put("/connectors/a/config", json=SOURCE),
              client.put("/connectors/a/stop"), client.post("/connectors/a/restart")]
    assert {answer.status_code for answer in writes} == {409}
    stale = ("Cannot complete request momentarily due to stale configuration (typically caused by a concurrent config "
             "change)")
    assert {str(answer.json["message"]) for answer in writes if answer.json} == {stale}


class Unreadable(BaseException):
    def __str__(self) -> str:
        raise KeyboardInterrupt


def test_an_error_with_an_unreadable_cause_is_a_500() -> None:
    """It ended the thread of the listener."""
    error = PluginExitError("the plugin exited")
    error.__cause__ = Unreadable()
    answer = client_of(FakeWorker(redirect=error)).get("/connectors/a")
    assert answer.json == {"error_code": 500, "message": "the plugin exited"}


def test_a_defect_is_a_500_without_a_stack_trace(caplog: pytest.LogCaptureFixture) -> None:
    answer = client_of(FakeWorker(redirect=ZeroDivisionError("1/0"))).get("/connectors/a")
    assert answer.json == {"error_code": 500, "message": "1/0"}
    assert "ZeroDivisionError" in caplog.text
    assert [(record.levelname, bool(record.exc_info)) for record in caplog.records] == [("ERROR", True)]
    caplog.clear()
    assert client_of(FakeWorker(redirect=ConnectError("expected"))).get("/connectors/a").status_code == 500
    assert [(record.levelname, bool(record.exc_info)) for record in caplog.records] == [("WARNING", False)]


@pytest.mark.parametrize(("error", "message"), [
    (ConfigError("bad"), "org.apache.kafka.common.config.ConfigException: bad"),
    (BadRequestError("bad"), "org.apache.kafka.connect.runtime.rest.errors.BadRequestException: bad"),
    (ValueError("bad"), "ValueError: bad"),
    (TimedOutError("Request timed out. The worker is …", None), "Request timed out. The worker is …"),
])
def test_validation_errors_name_their_class(error: Exception, message: str) -> None:
    answer = client_of(FakeWorker(redirect=error)).put("/connector-plugins/FileStreamSource/config/validate", json={})
    assert answer.json == {"error_code": 500, "message": message}


# ---------------------------------------------------------------- names
@pytest.mark.parametrize(("name", "path"), [
    ("a/b", "a%2Fb"), ("50%", "50%25"), ("%2F", "%252F"), ("a\\b", "a%5Cb"), ("été", "%C3%A9t%C3%A9"),
    ("a;b", "a%3Bb"), ("a?b#c", "a%3Fb%23c"), ("a b+c", "a%20b+c"), ("config", "config"), ("..", "%2E%2E"),
    ("😀", "%F0%9F%98%80"),
])
def test_any_name_can_be_used(name: str, path: str) -> None:
    client = client_of(FakeWorker())
    made = client.post("/connectors", json={"name": name, "config": SOURCE}, base_url="http://here:1")
    assert made.status_code == 201
    quoted = made.headers["Location"].removeprefix("http://here:1")
    for address in (f"/connectors/{path}", quoted):
        answer = client.get(address)
        assert answer.json is not None
        assert answer.json["name"] == name
    assert client.get(f"{quoted}/status").status_code == 200
    assert client.put(f"{quoted}/config", json=SOURCE).status_code == 200
    assert client.delete(quoted).status_code == 204
    assert client.get("/connectors").json == []


@pytest.mark.parametrize(("method", "path", "line"), [
    ("GET", "/connectors", "200 OK"), ("GET", "/connectors/a", "404 Not Found"), ("POST", "/nope", "404 Not Found"),
    ("PATCH", "/connectors", "405 Method Not Allowed"), ("POST", "/connectors", "500 Internal Server Error"),
])
def test_status_lines_are_written_as_usual(method: str, path: str, line: str) -> None:
    """Clients show them to people."""
    assert client_of(FakeWorker()).open(path, method=method).status == line


def test_location_is_encoded_as_little_as_by_java() -> None:
    made = client_of(FakeWorker()).post("/connectors", json={"name": "a:b,c=d&e+f'(g)@!*$~;/ %é", "config": SOURCE})
    assert made.headers["Location"] == "http://localhost/connectors/a:b,c=d&e+f'(g)@!*$~%3B%2F%20%25%C3%A9"


ANY_NAME = FakeWorker()
ANY_NAME_CLIENT = client_of(ANY_NAME)


@given(st.text(st.characters(exclude_categories=("Cc", "Cs")), min_size=1).filter(lambda name: name.strip() == name))
def test_location_leads_back_to_the_connector(name: str) -> None:
    ANY_NAME.config = FakeWorker().config
    client = ANY_NAME_CLIENT
    made = client.post("/connectors", json={"name": name, "config": SOURCE})
    found = client.get(made.headers["Location"].removeprefix("http://localhost"))
    assert found.json is not None
    assert found.json["name"] == name


@pytest.mark.parametrize("path", ["//connectors", "/connectors/%", "/connectors/%zz", "/connectors/%FF",
                                  "/connectors/a%00b", "/connectors//a"])
def test_an_invalid_path_is_400(path: str) -> None:
    answer = client_of(FakeWorker()).get("/", environ_overrides={"REQUEST_URI": path})
    assert answer.status_code == 400
    assert answer.json is not None
    assert answer.json["error_code"] == 400


# ---------------------------------------------------------------- create
def test_a_method_that_a_resource_does_not_have_is_405_with_those_that_it_has() -> None:
    answer = client_of(FakeWorker()).delete("/connectors")
    assert (answer.status_code, set(answer.headers["Allow"].split(", "))) == (405, {"GET", "HEAD", "OPTIONS", "POST"})


@pytest.mark.parametrize(("task", "known"), [("2147483647", True), ("-2147483648", True), ("2147483648", False)])
def test_the_number_of_a_task_is_a_java_int(task: str, known: bool) -> None:
    answer = client_of(FakeWorker()).get(f"/connectors/a/tasks/{task}/status")
    assert (answer.status_code, answer.json is not None) == (404, True)
    assert ("No status found for task" in answer.text) is known


def test_initial_state_reaches_the_herder() -> None:
    worker = FakeWorker()
    body = {"name": " c ", "config": SOURCE, "initial_state": "stopped"}
    assert client_of(worker).post("/connectors", json=body).status_code == 201
    config = {**SOURCE, "name": "c"}
    assert worker.asked[-1] == PutConnector("c", config, replace=False, initial_state=TargetState.STOPPED)


def test_offsets_keep_large_numbers() -> None:
    worker = FakeWorker()
    large = 2**80
    client_of(worker).patch("/connectors/c/offsets", json={"offsets": [{"partition": {"a": large}, "offset": {}}]})
    assert worker.asked[-1] == AlterOffsets("c", (({"a": large}, {}),))


# ---------------------------------------------------------------- statuses, topics
def test_status_shows_trace_and_version_only_if_there_are_any() -> None:
    worker = FakeWorker()
    worker.put("c", SOURCE, TargetState.STARTED, 1)
    worker.statuses = replace(worker.statuses, connectors={
        "c": Status("c", State.FAILED, WORKER, 1, trace="boom", version=None),
        "d": Status("d", State.UNASSIGNED, WORKER, 1, trace="", version="undefined")})
    client = client_of(worker)
    failed, other = client.get("/connectors/c/status").json, client.get("/connectors/d/status").json
    assert failed is not None
    assert failed["connector"] == {"state": "FAILED", "worker_id": WORKER, "version": None, "trace": "boom"}
    assert other == {"name": "d", "connector": {"state": "UNASSIGNED", "worker_id": WORKER}, "tasks": [],
                     "type": "unknown"}


def test_expand_skips_connectors_without_a_status() -> None:
    worker = FakeWorker()
    worker.put("seen", SOURCE, TargetState.STARTED, 1)
    worker.put("new", SOURCE, TargetState.STARTED, 1)
    worker.statuses = replace(worker.statuses, connectors={"seen": worker.statuses.connectors["seen"]})
    client = client_of(worker)
    assert list(client.get("/connectors?expand=status").json or ()) == ["seen"]
    assert list(client.get("/connectors?expand=info").json or ()) == ["new", "seen"]


def test_topics_are_listed_and_reset() -> None:
    worker = FakeWorker()
    topics = {TopicName(name): TopicStatus(TopicName(name), "c", 0, 1) for name in ("z", "a")}
    worker.statuses = replace(worker.statuses, topics={"c": topics})
    client = client_of(worker)
    assert client.get("/connectors/c/topics").json == {"c": {"topics": ["a", "z"]}}
    assert client.put("/connectors/c/topics/reset").status_code == 202
    assert client.get("/connectors/c/topics").json == {"c": {"topics": []}}


def test_topic_tracking_can_be_off() -> None:
    off = client_of(FakeWorker(), settings(topic_tracking_enable="false"))
    kept = client_of(FakeWorker(), settings(topic_tracking_allow_reset="false"))
    assert off.get("/connectors/c/topics").json == {"error_code": 403, "message": "Topic tracking is disabled."}
    assert off.put("/connectors/c/topics/reset").status_code == 403
    assert kept.get("/connectors/c/topics").status_code == 200
    assert kept.put("/connectors/c/topics/reset").json == {
        "error_code": 403, "message": "Topic tracking reset is disabled."}


# ---------------------------------------------------------------- internal requests
def test_the_signature_covers_the_bytes_as_sent() -> None:
    worker = FakeWorker()
    raw = b'[ {"a" : 1} ]'
    client_of(worker).post("/connectors/c/tasks", data=raw, headers={
        "x-connect-authorization": "AAEC", "x-connect-request-signature-algorithm": "HmacSHA256"})
    asked = worker.asked[-1]
    assert isinstance(asked, PutTaskConfigs)
    assert asked.configs == ({"a": "1"},)
    assert asked.signature is not None
    assert (asked.signature.body, asked.signature.signature) == (raw, b"\x00\x01\x02")


# ---------------------------------------------------------------- admin, CORS, headers
def test_admin_endpoints_have_their_own_application_on_their_own_listeners() -> None:
    worker = FakeWorker()
    apart = settings(listeners="http://:8083", admin_listeners="http://:8084")
    assert client_of(worker, apart).get("/admin/loggers").status_code == 404
    app = admin_app_of(worker, apart)
    assert app is not None
    admin = Client(app)
    assert admin.get("/admin/loggers").json == {}
    assert admin.get("/").status_code == 404
    assert admin.get("/connectors").status_code == 404


def test_the_story_of_a_connector_is_on_admin_listeners() -> None:
    worker = FakeWorker()
    apart = settings(listeners="http://:8083", admin_listeners="http://:8084")
    app = admin_app_of(worker, apart)
    assert app is not None
    name = quote('a/b"', safe="")
    for client in (client_of(worker), Client(app)):
        assert client.get(f"/connectors/{name}/story").status_code == 404
    client_of(worker).post("/connectors", json={"name": 'a/b"', "config": SOURCE})
    assert client_of(worker, apart).get(f"/connectors/{name}/story").status_code == 404
    for client in (client_of(worker), Client(app)):
        answer = client.get(f"/connectors/{name}/story")
        assert answer.json == {"connector": 'a/b"', "story": [
            {"at": "2027-01-15T08:00:00.123Z", "cause": "Validated#2", "because": "RequestReceived#1",
             "what": "two\nlines", "effects": ["Log"]}]}


@pytest.mark.parametrize(("props", "status"), [({}, 200), ({"admin_listeners": ""}, 404),
                                               ({"listeners": "http://:1", "admin_listeners": "http://:1"}, 200)])
def test_admin_endpoints_are_on_the_main_listener_or_disabled(props: dict[str, str], status: int) -> None:
    worker = FakeWorker()
    assert client_of(worker, settings(**props)).get("/admin/loggers").status_code == status
    assert admin_app_of(worker, settings(**props)) is None


def test_cluster_scope_is_passed_to_the_store() -> None:
    worker = FakeWorker()
    answer = client_of(worker).put("/admin/loggers/a.b?scope=Cluster", json={"level": "trace"})
    assert answer.status_code == 204
    assert worker.asked == [SetClusterLoggerLevel("a.b", "TRACE")]


@pytest.mark.parametrize("scope", ["worker", "cluster"])
def test_the_name_of_a_logger_has_a_limit(scope: str) -> None:
    worker = FakeWorker()
    answer = client_of(worker).put(f"/admin/loggers/{'a.' * 500}b?scope={scope}", json={"level": "INFO"})
    assert (answer.status_code, answer.json) == (400, {
        "error_code": 400, "message": "The logger's name has 1,001 characters; at most 1,000 are allowed."})
    assert worker.asked == []


def test_spaces_around_a_level_are_ignored() -> None:
    worker = FakeWorker()
    assert client_of(worker).put("/admin/loggers/a.b?scope=cluster", json={"level": " info "}).status_code == 204
    assert worker.asked == [SetClusterLoggerLevel("a.b", "INFO")]


def test_cors_headers_are_those_of_java() -> None:
    client = client_of(FakeWorker(), settings(
        access_control_allow_origin="http://ui.example, http://.*\\.trusted\\.example",
        access_control_allow_methods="GET,PUT"))
    plain = client.get("/connectors", headers={"Origin": "http://ui.example"})
    assert plain.headers["Access-Control-Allow-Origin"] == "http://ui.example"
    assert plain.headers["Vary"] == "Origin"
    assert client.get("/nope", headers={"Origin": "http://x.trusted.example"}).headers["Access-Control-Allow-Origin"]
    for headers in ({"Origin": "http://evil.example"}, {}):
        refused = client.get("/connectors", headers=headers)
        assert refused.status_code == 200
        assert "Access-Control-Allow-Origin" not in refused.headers
        assert refused.headers["Vary"] == "Origin"
    preflight = client.options("/connectors", headers={
        "Origin": "http://ui.example", "Access-Control-Request-Method": "PUT"})
    assert preflight.status_code == 200
    assert {key: value for key, value in preflight.headers if key.startswith("Access-Control")} == {
        "Access-Control-Allow-Origin": "http://ui.example", "Access-Control-Allow-Methods": "GET,PUT",
        "Access-Control-Allow-Headers": "Content-Type", "Access-Control-Max-Age": "60"}


@pytest.mark.parametrize(("accept", "status"), [
    ("text/html, image/gif, image/jpeg, *; q=.2, */*; q=.2", 200),  # of Java's HttpURLConnection
    ("*", 200), ("APPLICATION/JSON", 200), ("application/json; charset=utf-8", 200), ("*/json", 200),
    ("text/*, application/*;q=0.1", 200), ("application/json;q=0", 200), ("json, application/json", 200), ("", 200),
    ("text/html", 406), ("json", 406), ("application/jsonx", 406), ("a/b/c, application/json", 400),
])
def test_accept_headers_are_negotiated_as_by_java(accept: str, status: int) -> None:
    assert client_of(FakeWorker()).get("/connectors", headers={"Accept": accept}).status_code == status


def test_cors_may_allow_every_origin() -> None:
    client = client_of(FakeWorker(), settings(access_control_allow_origin="*"))
    headers = {"Origin": "null", "Access-Control-Request-Method": "PUT"}
    answer = client.options("/connectors", headers=headers)
    assert answer.headers["Access-Control-Allow-Origin"] == "null"
    assert answer.headers["Access-Control-Allow-Methods"] == "HEAD,POST,GET"
    assert "Vary" not in client_of(FakeWorker()).get("/connectors", headers=headers).headers


def test_configured_response_headers_are_added() -> None:
    client = client_of(FakeWorker(), rest_settings({"response.http.headers.config": (
        'add Cache-Control: no-cache, "add Cache-Control: no-store, private", set X-Frame-Options:DENY, '
        "set Content-Type: application/x, setDate Expires: 31540000000")}))
    for path in ("/", "/nope"):
        headers = client.get(path).headers
        assert headers.getlist("Cache-Control") == ["no-cache", "no-store, private"]
        assert headers["X-Frame-Options"] == "DENY"
        assert headers["Content-Type"] == "application/x"
        assert headers["Expires"].endswith("GMT")


# ---------------------------------------------------------------- heeler's own: metrics, logs by connector
def test_metrics_are_served_before_kafka_is_reached_and_for_any_accept_header() -> None:
    worker = FakeWorker(kafka_cluster_id=None, started=False, stage=None)
    answer = client_of(worker).get("/metrics", headers={"Accept": "application/openmetrics-text;version=1.0.0"})
    assert (answer.status_code, answer.content_type) == (200, "text/plain; version=0.0.4; charset=utf-8")
    assert answer.text == "java 1\nheeler 1\n"
    assert client_of(worker).get("/metrics?names=heeler").text == "heeler 1\n"
    assert client_of(worker).get("/metrics?names=all").status_code == 400


def test_recent_log_lines_of_a_connector_are_returned() -> None:
    worker = FakeWorker()
    client = client_of(worker)
    assert client.get("/connectors/a/logs").status_code == 404
    client.put("/connectors/a/config", json=SOURCE)
    assert client.get("/connectors/a/logs").json == {"name": "a", "lines": ["a 0", "a 1", "a 2"]}
    assert client.get("/connectors/a/logs?lines=1").json == {"name": "a", "lines": ["a 2"]}
    for wrong in ("0", "-1", "x", "1.5", ""):
        assert client.get(f"/connectors/a/logs?lines={wrong}").status_code == 400


def test_metrics_and_logs_on_the_admin_listener() -> None:
    apart = settings(admin_listeners="http://localhost:9000")
    worker = FakeWorker()
    client_of(worker).put("/connectors/a/config", json=SOURCE)
    app = admin_app_of(worker, apart)
    assert app is not None
    assert Client(app).get("/metrics").status_code == 200
    assert Client(app).get("/connectors/a/logs").status_code == 200
    assert client_of(worker, apart).get("/metrics").status_code == 200
    assert client_of(worker, apart).get("/connectors/a/logs").status_code == 404


# ---------------------------------------------------------------- self-healing
def test_restarts_and_stalls_are_only_in_statuses() -> None:
    """A Java worker that has forwarded a restart refuses unknown fields in the response."""
    worker = FakeWorker()
    client = client_of(worker)
    client.post("/connectors", json={"name": "a", "config": SOURCE})
    name = ConnectorName("a")
    failed = {0: Restarts(2, "failed: OSError: away", 1_800_000_000_123), 1: Restarts(0, "failed: no", permanent=True)}
    tasks = {n: Status(ConnectorTaskId(name, n), State.FAILED, WORKER, 1, restarts=failed[n]) for n in failed}
    tasks[2] = Status(ConnectorTaskId(name, 2), State.RUNNING, WORKER, 1,
                      stalled=Stall(1_800_000_000_123, "a batch hangs\nin read"))
    stalled = {"since": "2027-01-15T08:00:00.123Z", "what": "a batch hangs\nin read"}
    connector = Status(name, State.RUNNING, WORKER, 1, restarts=Restarts(1, "failed: x"))
    worker.statuses = StatusState({name: connector}, {name: tasks})
    first = {"count": 2, "cause": "failed: OSError: away", "next_attempt": "2027-01-15T08:00:00.123Z"}
    shown = [client.get("/connectors/a/status").json, client.get("/connectors?expand=status").json["a"]["status"]]  # type: ignore[index]
    for status in shown:
        assert status is not None
        assert status["restarts"] == {"count": 1, "cause": "failed: x"}
        assert status["connector"].keys() == {"state", "worker_id", "version"}, "clients read it as a map of strings"
        assert [task.get("restarts") for task in status["tasks"]] == [first, {
            "count": 0, "cause": "failed: no", "permanent": True}, None]
        assert [task.get("stalled") for task in status["tasks"]] == [None, None, stalled]
    alone = client.get("/connectors/a/tasks/0/status").json
    assert alone is not None
    assert alone["restarts"] == first
    alone = client.get("/connectors/a/tasks/2/status").json
    assert alone is not None
    assert alone["stalled"] == stalled
    answer = client.post("/connectors/a/restart?includeTasks=true")
    assert answer.status_code == 202
    assert "restarts" not in answer.text
    assert "stalled" not in answer.text
