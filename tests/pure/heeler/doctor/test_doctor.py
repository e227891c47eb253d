"""What `heeler doctor` finds without Kafka; tests/integration/test_doctor.py has the rest."""

from __future__ import annotations

import datetime as dt
import json
import socket
import subprocess
import sys

import pytest
from click.testing import CliRunner

from heeler.cli.main import main
from heeler.doctor import worker
from heeler.doctor.findings import Finding, Verdict, findings_of
from tests.rigs.fake_connect import fake_connect
from tests.rigs.serving import make_certificates

STRING = "org.apache.kafka.connect.storage.StringConverter"
SETTINGS = {
    "bootstrap.servers": "127.0.0.1:1", "group.id": "g", "key.converter": STRING, "value.converter": STRING,
    **{f"{kind}.storage.topic": f"t-{kind}" for kind in ("config", "offset", "status")},
}


@pytest.fixture(autouse=True)
def java(fake_java):
    """A script, because each test asks for its version."""
    fake_java("21.0.1")


def doctor(*words, code=0, **environ):
    done = CliRunner(env={"HEELER_URL": "", "HEELER_PROFILES": "/nowhere", **environ}).invoke(
        main, ["doctor", *map(str, words), "-o", "json"], catch_exceptions=False)
    assert done.exit_code == code, done.output
    return [(said["about"], said["verdict"], said["message"]) for said in json.loads(done.stdout)]


def of(found, about):
    return [(verdict, said) for thing, verdict, said in found if thing == about]


@pytest.fixture
def file(tmp_path, monkeypatch):
    monkeypatch.setattr(worker, "TIMEOUT_MS", 300)

    def write(**more):
        settings = {**SETTINGS, **{key.replace("_", "."): value for key, value in more.items()}}
        path = tmp_path / "worker.properties"
        path.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        return path

    return write


@pytest.mark.parametrize("form", [
    "spark://{}", "spark://127.0.0.1:1,{}", "k8s://http://{}", "spark://localhost:1,{},[::1]:1"])
def test_a_master_of_spark_that_accepts_connections(file, form):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        master = form.format(f"127.0.0.1:{listener.getsockname()[1]}")
        found = of(doctor(file(spark_master=master, spark_authenticate="false"), code=1), "Spark")
    assert ("ok", f"{master} accepts connections") in found


@pytest.mark.parametrize("master", ["spark://127.0.0.1:1", "spark://127.0.0.1:1,[::1]:1", "k8s://https://127.0.0.1:1"])
def test_a_master_of_spark_that_cannot_be_reached(file, master):
    found = of(doctor(file(spark_master=master, spark_authenticate="false"), code=1), "Spark")
    [said] = [said for verdict, said in found if verdict == "error"]
    assert said.startswith(f"spark.master {master} cannot be reached (127.0.0.1:1: ")


@pytest.mark.parametrize("master", ["local[2]", "yarn", ""])
def test_other_masters_of_spark_are_not_connected_to(file, master):
    assert not any("master" in said or "accepts" in said
                   for _, said in of(doctor(file(spark_master=master, spark_authenticate="false"), code=1), "Spark"))


def test_a_machine_without_java(tmp_path):
    found = doctor(code=1, JAVA_HOME=str(tmp_path))
    [(verdict, said)] = of(found, "Java")
    assert verdict == "error"
    assert "apt-get install openjdk" in said
    assert [verdict for verdict, _ in of(found, "Spark")] == ["ok"], "nothing is to be done about Spark"


def test_a_machine_with_java():
    [(verdict, said)] = of(doctor(), "Java")
    assert (verdict, said.endswith("version 21")) == ("ok", True)


def test_a_machine_that_allows_few_open_files():
    shell = ["sh", "-c", 'ulimit -n 1000; ulimit -Hn 1000; exec "$@"', "sh"]
    done = subprocess.run([*shell, sys.executable, "-m", "heeler", "doctor", "-o", "json"], capture_output=True,
                          text=True, timeout=120, check=False)
    [said] = [said for said in json.loads(done.stdout) if said["about"] == "open files"]
    assert said["verdict"] == "warning"
    assert "limit is 1000 open files" in said["message"]


def test_invalid_worker_settings_are_an_error(file):
    [(verdict, said)] = of(doctor(file(session_timeout_ms="soon"), code=1), "settings")
    assert (verdict, "soon" in said) == ("error", True)


def test_a_failed_check_does_not_prevent_others(file, tmp_path):
    """Unreachable brokers, a plugin that cannot be imported, an invalid jar, a missing folder, a misspelled key."""
    folder = tmp_path / "plugins"
    folder.mkdir()
    (folder / "broken.jar").write_bytes(b"PK, or not")
    (folder / "broken.py").write_text("import no_such_module\nfrom heeler import SourceConnector\n\n\n"
                                      "class Broken(SourceConnector):\n    pass\n")
    path = file(plugin_path=f"{folder},/nowhere/at/all", ofset_flush_interval_ms="1")
    found = doctor(path, "--override", "producer.password=hunter2hunter2", code=1)
    [(verdict, said)] = of(found, "Kafka")
    assert verdict == "error"
    assert "127.0.0.1:1" in said
    reported = of(found, "plugins")
    assert [verdict for verdict, _ in reported] == ["error", "error", "error", "ok"]
    assert "broken.jar: " in reported[0][1]
    assert "/nowhere/at/all" in reported[1][1]
    assert "no_such_module" in reported[2][1]
    assert of(found, "settings") == [
        ("warning", "Unknown worker settings, possibly misspelled: ofset.flush.interval.ms")]
    assert of(found, "certificates") == [("ok", "none is configured")]
    assert "hunter2" not in str(found)


def test_certificates_are_checked_before_they_expire(tmp_path, file):
    made = make_certificates(tmp_path)
    pem = made.certificate.read_text()
    now = dt.datetime.now(dt.UTC)
    end = now + dt.timedelta(days=1)
    for moment, verdict, said in ((now, Verdict.WARNING, "Replace it soon"),
                                  (end + dt.timedelta(days=2), Verdict.ERROR, "Replace it"),
                                  (now - dt.timedelta(days=9), Verdict.ERROR, "clock")):
        finding = worker.validity("REST", pem, moment)
        assert (finding.verdict, said in finding.message) == (verdict, True)
    path = file(listeners="https://127.0.0.1:0", ssl_keystore_location=str(made.pem))
    assert [verdict for verdict, _ in of(doctor(path, code=1), "certificates")] == ["warning"] * 2  # a day's, for both
    path = file(listeners="https://127.0.0.1:0", ssl_keystore_location="/nowhere")
    [(verdict, said)] = of(doctor(path, code=1), "certificates")
    assert (verdict, "/nowhere" in said) == ("error", True)


@pytest.mark.parametrize("ahead", [-90, 0, 90])
def test_clocks_of_workers_are_compared(ahead):
    with fake_connect({"GET /": (200, {"version": "4.3.1"}), "GET /health": (200, {"status": "healthy"})}) as fake:
        fake.ahead_s = ahead
        found = doctor("--url", f"{fake.url},http://127.0.0.1:1", code=1)
    [(verdict, said)] = of(found, "clocks")
    assert verdict == ("error" if ahead else "ok")
    assert ("behind" in said, "ahead of" in said) == (ahead < 0, ahead > 0)
    assert [verdict for verdict, _ in of(found, "workers")] == ["ok", "error"]


def test_an_unhealthy_worker():
    answers = {"GET /": (200, {"version": "4.3.1"}), "GET /health": (503, {"message": "still starting"})}
    with fake_connect(answers) as fake:
        [(verdict, said)] = of(doctor("--url", fake.url, code=1), "workers")
        assert (verdict, "still starting" in said) == ("error", True)
        fake.answers["GET /health"] = (200, {"status": "healthy", "degraded": ["c-0 hangs"]})
        assert of(doctor("--url", fake.url), "workers")[0][0] == "warning"


def test_each_finding_is_a_line():
    done = CliRunner().invoke(main, ["doctor", "--url", "http://127.0.0.1:1"])
    [line] = [line for line in done.stdout.splitlines() if line.startswith("workers")]
    assert "HEELER_URL)? http://127.0.0.1:1: [Errno" in line


def test_a_check_that_fails_is_a_finding():
    def check():
        yield Finding("x", Verdict.OK, "first")
        raise ZeroDivisionError("oh")

    found = [(f.verdict, "oh" in f.message) for f in findings_of("x", check)]
    assert found == [(Verdict.OK, False), (Verdict.ERROR, True)]
