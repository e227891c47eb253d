"""Kafka Connect's own integration tests, with heeler workers in the place of Java's. `make connectors`; needs a JDK.

Their EmbeddedConnectCluster starts workers through one class, WorkerHandle; tests/rigs/worker_handle has another one of
that name, which is found before. All else is Kafka's: cluster, REST client, assertions, connectors.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import xml.etree.ElementTree as ET
import zipfile
from pathlib import Path

import pytest

from heeler.embedded_kafka.guard import GuardedProcess
from heeler.embedded_kafka.jars import KAFKA_VERSION, JarSet, classpath, resolve
from heeler.embedded_kafka.java import find_java
from heeler.java_host.host_classpath import COMPILER
from heeler.java_host.runtime import JavaRuntime
from tests.rigs.java_settings import java_settings

pytestmark = [pytest.mark.connectors, pytest.mark.timeout(1800)]

KAFKA = "org.apache.kafka"
TESTS = JarSet(
    f"Kafka Connect tests {KAFKA_VERSION}",
    (*((KAFKA, name, KAFKA_VERSION) for name in ("connect-runtime", "kafka-clients", "kafka_2.13",
                                                 "kafka-test-common-runtime")),
     ("org.junit.platform", "junit-platform-console", "1.13.1"), ("org.slf4j", "slf4j-simple", "1.7.36")),
    tests=("connect-runtime", "kafka-clients", "kafka_2.13"))
SOURCES = Path(__file__).parents[1] / "rigs" / "worker_handle"


@pytest.fixture(scope="module")
def kit(tmp_path_factory):
    """Folder, classpath, and a plugin.path with the connectors of the tests."""
    folder = tmp_path_factory.mktemp("kafka-tests")
    jars = resolve(TESTS)
    unpacked, ours, plugins = folder / "unpacked", folder / "ours", folder / "plugins"
    with zipfile.ZipFile(jars / f"connect-runtime-{KAFKA_VERSION}-test.jar") as archive:
        archive.extractall(unpacked)  # they look for folders in it
    path = f"{unpacked}:{classpath(jars)}"
    subprocess.run([find_java(), "-jar", classpath(resolve(COMPILER)), "--release", "17", "-nowarn", "-proc:none",
                    "-d", str(ours), "-classpath", path, *map(str, SOURCES.rglob("*.java"))], check=True, timeout=120)
    (plugins / "theirs").mkdir(parents=True)
    for name in (f"connect-runtime-{KAFKA_VERSION}-test", f"kafka-server-common-{KAFKA_VERSION}"):
        shutil.copy(jars / f"{name}.jar", plugins / "theirs")
    JavaRuntime(java_settings({}), [str(plugins)]).close()  # looked into once, so that workers start in time
    return folder, f"{ours}:{path}", plugins


def run(kit, name):
    """Error messages by the name of the test, None if it passed."""
    folder, path, plugins = kit
    command = [
        find_java(), "-Xmx1G", f"-Dheeler.python={sys.executable}", f"-Dheeler.folder={folder}",
        f"-Dheeler.plugins={plugins}", "-Dorg.slf4j.simpleLogger.defaultLogLevel=error", "-cp", path,
        "org.junit.platform.console.ConsoleLauncher", "execute", "--disable-banner", "--details=none",
        f"--reports-dir={folder / name}", "-c", f"{KAFKA}.connect.integration.{name}"]
    process = GuardedProcess(command, folder / f"{name}.log")
    try:
        assert process.wait(1500) is not None
    finally:
        process.close()  # its workers end with it
    report = ET.parse(folder / name / "TEST-junit-jupiter.xml")  # noqa: S314 - our own process has written it
    return {case.get("name").partition("(")[0]: problem.get("message") if problem is not None else None
            for case in report.iter("testcase")
            for problem in [next((child for child in case if child.tag in {"failure", "error"}), None)]}


@pytest.mark.parametrize(("name", "different"), [
    ("ConnectorValidationIntegrationTest", set()),
    ("OffsetsApiIntegrationTest", {
        # A task that hangs leaves the group when it is abandoned, so its offsets can be altered.
        "testAlterSinkConnectorOffsetsZombieSinkTasks", "testResetSinkConnectorOffsetsZombieSinkTasks",
        # One of its bodies is not JSON, which Jackson notices after something else.
        "testAlterSourceConnectorOffsetsInvalidRequestBody"}),
    ("ConnectorTopicsIntegrationTest", set()),
    ("ConnectorClientPolicyIntegrationTest", set()),
    ("InternalTopicsIntegrationTest", {
        # It sends requests to a worker that cannot create its topics: heeler's has ended by then.
        "testFailToCreateInternalTopicsWithMoreReplicasThanBrokers"}),
    ("SourceConnectorsIntegrationTest", set()),
    # It counts starts of a connector in the tests' own JVM, where heeler runs none.
    ("RebalanceSourceConnectorsIntegrationTest", {"testReconfigConnector"}),
])
def test_kafkas_own_integration_tests_pass_against_heeler(kit, name, different):
    """`different`: tests of behavior that heeler implements differently (docs/java-plugins.md)."""
    found = run(kit, name)
    failed = {test: message for test, message in found.items() if message is not None}
    assert failed.keys() == different, failed
    assert len(found) > len(failed)
