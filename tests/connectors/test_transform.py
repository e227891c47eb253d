"""Transforms of a third party from Maven Central on a real worker, with a Java source and sink. `make connectors`."""

from __future__ import annotations

import pytest

from heeler.embedded_kafka.jars import KAFKA_VERSION
from heeler.java_host.install import Coordinates, install
from heeler.java_host.runtime import JavaRuntime
from tests.rigs.java_settings import java_settings
from tests.rigs.support import wait_until
from tests.rigs.workers import JSON, PATIENT, Kafka, running_worker

pytestmark = [pytest.mark.connectors, pytest.mark.timeout(600)]

THEIRS = "com.github.jcustenborder.kafka.connect.transform.common."
FILE = "org.apache.kafka.connect.file.FileStream"
SOON_S = 120.0


@pytest.fixture
def rig(broker, tmp_path):
    jars = tmp_path / "jars"
    for name in ("com.github.jcustenborder.kafka.connect:kafka-connect-transform-common:0.1.0.14",
                 f"org.apache.kafka:connect-file:{KAFKA_VERSION}"):
        install(Coordinates.parse(name), jars, print)
    JavaRuntime(java_settings({}), [str(jars)]).close()  # looks into every class, as there are no manifests, just once
    more = {"plugin_path": str(jars), "java_plugins_prefer": f"{FILE}SourceConnector,{FILE}SinkConnector",
            "offset_flush_interval_ms": "500"}
    with running_worker(Kafka(broker.bootstrap_servers), tmp_path / "worker", "transforms", **more, **PATIENT) as rig:
        yield rig


def test_third_party_transforms_run_from_jars_without_manifests(rig):
    """Of fields, of topics, of whole values; validated by their own definitions. Their jars have no manifests: the host
    of the worker is given some.
    """
    shown = [p["class"] for p in rig.call("GET", "/connector-plugins?connectorsOnly=false")]
    assert {f"{THEIRS}ChangeCase$Value", f"{THEIRS}ChangeTopicCase"} <= set(shown)
    lines = rig.folder / "lines"
    lines.write_text("one\ntwo\n")
    source = {
        "connector.class": f"{FILE}SourceConnector", "file": str(lines), "topic": "some_lines",
        "transforms": "hoist,fields,topic", "value.converter": JSON, "value.converter.schemas.enable": "false",
        "transforms.hoist.type": "org.apache.kafka.connect.transforms.HoistField$Value",
        "transforms.hoist.field": "the_line",
        "transforms.fields.type": f"{THEIRS}ChangeCase$Value",
        "transforms.fields.from": "LOWER_UNDERSCORE", "transforms.fields.to": "LOWER_CAMEL",
        "transforms.topic.type": f"{THEIRS}ChangeTopicCase",
        "transforms.topic.from": "LOWER_UNDERSCORE", "transforms.topic.to": "UPPER_UNDERSCORE"}
    refused = rig.refused("POST", "/connectors", {"name": "bad", "config": {**source, "transforms.fields.to": "TALL"}})
    assert "TALL" in str(refused)
    rig.create("lines", source, ["RUNNING", "RUNNING"])
    wait_until(lambda: rig.kafka.end("SOME_LINES") == 2, SOON_S, "the lines")
    assert rig.kafka.values("SOME_LINES") == ['{"theLine":"one"}', '{"theLine":"two"}']
    out = rig.folder / "out"
    rig.create("copies", {
        "connector.class": f"{FILE}SinkConnector", "file": str(out), "topics": "SOME_LINES",
        "value.converter": "org.apache.kafka.connect.converters.ByteArrayConverter", "transforms": "text",
        "transforms.text.type": f"{THEIRS}BytesToString$Value"}, ["RUNNING", "RUNNING"])
    rig.wait_lines(out, ['{"theLine":"one"}', '{"theLine":"two"}'], SOON_S)
    assert "has no manifests" not in rig.process.log.read_text()
    for name in ("lines", "copies"):
        rig.delete(name)
