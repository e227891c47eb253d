"""A worker with a secured Kafka (SASL over TLS), and the same properties file as for a Java worker."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from confluent_kafka.admin import ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion

from heeler.cli.support.worker_process import WorkerProcess
from heeler.embedded_kafka.broker import EmbeddedBroker
from heeler.embedded_kafka.java import find_java
from heeler.embedded_kafka.ports import free_port
from tests.rigs.scrape import metrics
from tests.rigs.serving import Certificates, make_certificates
from tests.rigs.workers import SOON_S, Kafka, processes_of, running_worker, wait_gone

pytestmark = [pytest.mark.integration, pytest.mark.timeout(240)]

PASSWORD = 'p "w"; user=\\'  # noqa: S105 - a test's
QUOTED = PASSWORD.replace("\\", "\\\\").replace('"', '\\"')
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"


def login(module, user, password):
    return f'{module} required username="{user}" password="{password}";'


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    return make_certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def secured(certificates: Certificates):
    """A broker, its addresses for logins and for certificates of clients, and the broker as the tests see it, over its
    own listener without any password.
    """
    address, mutual = (f"127.0.0.1:{free_port()}" for _ in range(2))
    listener = {
        "sasl.enabled.mechanisms": "SCRAM-SHA-512,PLAIN",
        "scram-sha-512.sasl.jaas.config": f"{SCRAM} required;",
        "plain.sasl.jaas.config": f'{PLAIN} required user_reader="plain";',
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(certificates.pem),
    }
    certified = {
        "ssl.keystore.type": "PEM", "ssl.keystore.location": str(certificates.pem), "ssl.client.auth": "required",
        "ssl.truststore.type": "PEM", "ssl.truststore.location": str(certificates.certificate),
    }
    settings = {
        "listeners": f"SECURED://{address},MUTUAL://{mutual}",
        "advertised.listeners": f"SECURED://{address},MUTUAL://{mutual}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SECURED:SASL_SSL,MUTUAL:SSL",
        **{f"listener.name.secured.{key}": value for key, value in listener.items()},
        **{f"listener.name.mutual.{key}": value for key, value in certified.items()},
        "group.min.session.timeout.ms": "500",
    }
    with EmbeddedBroker(quick=True, settings=settings) as broker:
        kafka = Kafka(broker.bootstrap_servers)
        info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
        change = UserScramCredentialUpsertion("connect", info, PASSWORD.encode())
        kafka.admin.alter_user_scram_credentials([change])["connect"].result(30)
        yield address, mutual, kafka


@pytest.fixture(scope="module")
def trust_store(certificates: Certificates, tmp_path_factory):
    """What `keytool` makes of the broker's certificate in Java's old format."""
    file = tmp_path_factory.mktemp("trust") / "kafka.truststore.jks"
    subprocess.run([str(Path(find_java()).with_name("keytool")), "-importcert", "-noprompt", "-alias", "ca", "-file",
                    str(certificates.certificate), "-keystore", str(file), "-storetype", "JKS", "-storepass",
                    "changeit"], check=True, capture_output=True)
    return {"ssl.truststore.location": str(file), "ssl.truststore.password": "changeit", "ssl.truststore.type": "JKS"}


@pytest.fixture(scope="module")
def rig(secured, trust_store, tmp_path_factory):
    """A worker that logs in with a password for which Java's quoting is needed; every client is configured."""
    address, _, kafka = secured
    security = {"security.protocol": "SASL_SSL", "sasl.mechanism": "SCRAM-SHA-512",
                "sasl.jaas.config": login(SCRAM, "connect", QUOTED), **trust_store}
    everywhere = {f"{prefix}{key}": value for prefix in ("", "producer.", "consumer.", "admin.")
                  for key, value in security.items()}
    folder = tmp_path_factory.mktemp("secured")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TMPDIR", str(folder))  # where what was read of the stores is kept
        with running_worker(kafka, folder, "secured", bootstrap_servers=address, **everywhere) as rig:
            yield rig


def test_data_flow_with_the_workers_login_and_with_a_connectors_own(rig, certificates, topic_name):
    source, target = rig.folder / "in.txt", rig.folder / "out.txt"
    source.write_text("one\ntwo\n")
    rig.create("in", {"connector.class": "FileStreamSource", "file": str(source), "topic": topic_name})
    own = {"sasl.mechanism": "PLAIN", "sasl.jaas.config": login(PLAIN, "reader", "plain"),
           "ssl.truststore.type": "PEM", "ssl.truststore.location": str(certificates.certificate)}
    sink = {"connector.class": "FileStreamSink", "topics": topic_name, "file": str(target)}
    rig.create("out", sink)
    rig.wait_lines(target, ["one", "two"])
    for key, value in own.items():
        sink[f"consumer.override.{key}"] = value
    rig.create("out", sink, ["RUNNING", "RUNNING"])
    with source.open("a") as file:
        file.write("three\n")
    rig.wait_lines(target, ["one", "two", "three"])


@pytest.mark.parametrize("store", ["PEM texts", "PKCS12"])
@pytest.mark.parametrize("end", ["TERM", "KILL"])
def test_the_private_key_of_a_worker_is_in_no_temporary_file(
    secured, certificates, tmp_path, monkeypatch, topic_name, end, store
):
    """It stayed there after the worker's end. All clients use it: the broker requires a certificate."""
    _, mutual, kafka = secured
    key, chain = re.findall(r"(-----BEGIN [^-]+-----[^-]+-----END [^-]+-----)", certificates.pem.read_text())
    tls = {"ssl.keystore.type": "PEM", "ssl.keystore.key": key.replace("\n", " "),
           "ssl.keystore.certificate.chain": chain.replace("\n", " ")} if store == "PEM texts" else {
               "ssl.keystore.location": str(certificates.pkcs12), "ssl.keystore.password": "secret"}
    trusted = {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": chain.replace("\n", " ")}
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    secret = key.splitlines()[1]

    def with_key():
        files = [path for path in temporary.rglob("*") if path.is_file()]
        contents = {path: path.read_bytes() for path in files}
        return [path for path, content in contents.items() if b"PRIVATE KEY" in content or secret.encode() in content]

    source, target = tmp_path / "in.txt", tmp_path / "out.txt"
    source.write_text("one\ntwo\n")
    with running_worker(kafka, tmp_path / "worker", f"{end}-{store[:3]}", bootstrap_servers=mutual,
                        **{"security.protocol": "SSL", "heeler.log.level.kafka": "DEBUG"}, **tls, **trusted) as rig:
        rig.create(f"{topic_name}-in", {"connector.class": "FileStreamSource", "file": str(source),
                                        "topic": topic_name})
        rig.create(f"{topic_name}-out", {"connector.class": "FileStreamSink", "topics": topic_name,
                                         "file": str(target)})
        rig.wait_lines(target, ["one", "two"])
        assert with_key() == []
        processes = processes_of(rig.process)
        assert not any(secret in " ".join(process.cmdline()) for process in processes)
        rig.process.signal(end)
        wait_gone(processes)
        assert with_key() == []
        assert secret not in rig.process.log.read_text()


@pytest.mark.parametrize(("client", "connector"), [("producer", "FileStreamSource"), ("consumer", "FileStreamSink")])
def test_a_connector_with_a_wrong_password_fails_permanently(rig, topic_name, client, connector):
    """It is not restarted: status, story and metrics show that a restart cannot help."""
    rig.kafka.create(topic_name)
    file = rig.folder / "more.txt"
    file.write_text("line\n")
    rig.create(topic_name, {
        "connector.class": connector, "file": str(file), "topics" if client == "consumer" else "topic": topic_name,
        "errors.restart.policy": "all", "errors.restart.backoff.initial.ms": "1",
        f"{client}.override.sasl.jaas.config": login(SCRAM, "connect", "guessed")}, ["RUNNING", "FAILED"])
    assert "Authentication failed" in rig.rest.failure(topic_name)
    [task] = rig.call("GET", f"/connectors/{topic_name}/status")["tasks"]
    assert (task["restarts"]["count"], task["restarts"]["permanent"]) == (0, True)
    assert "next_attempt" not in task["restarts"]
    assert "A restart cannot fix this" in str(rig.call("GET", f"/connectors/{topic_name}/story"))
    log = rig.process.log.read_text()
    assert re.findall(r".*SaslAuthenticationFailedError.*\(kafka\..*", log) == [], "what heeler says itself"
    found = metrics(rig)
    assert found["heeler_task_failure_permanent", topic_name, "0"] == 1
    assert ("heeler_task_next_restart_timestamp_seconds", topic_name, "0") not in found


def test_a_worker_that_cannot_log_in_exits_with_the_reason(rig, certificates, tmp_path):
    cases = {
        "password": ({"sasl.jaas.config": login(SCRAM, "connect", "guessed")}, "Authentication failed"),
        "mechanism": ({"sasl.mechanism": "SCRAM-SHA-256"}, "does not support the SASL mechanism SCRAM-SHA-256"),
        "certificate": ({"ssl.truststore.location": str(make_certificates(tmp_path / "other").certificate)},
                        "certificate is not trusted"),
    }
    workers = {}
    try:
        for case, (changed, _) in cases.items():
            properties = {**rig.process.properties, **changed, "listeners": f"http://127.0.0.1:{free_port()}"}
            workers[case] = WorkerProcess(tmp_path, properties, case).start()
        for case, (_, text) in cases.items():
            assert workers[case].wait(SOON_S) == 1, workers[case].tail()
            said = workers[case].log.read_text(errors="replace")
            assert f"Failed to connect to and describe Kafka cluster at {rig.process.properties['bootstrap.servers']}" \
                in said, said
            assert text in said, said
            assert "Traceback" not in said, said
    finally:
        for worker in workers.values():
            worker.kill()
