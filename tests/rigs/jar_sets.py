"""What tests fetch from Maven Central besides the broker. `python -m tests.rigs.jar_sets` fetches all of it, so that no
test waits for the network: on a new machine, a test would need most of its time for that.
"""

from __future__ import annotations

import sys

from heeler.embedded_kafka.jars import BROKER, KAFKA_VERSION, JarSet, Step, resolve
from heeler.java_host.host_classpath import host_classpath
from tests.rigs import schema_registry

_KAFKA = "org.apache.kafka"

CONNECT = JarSet(f"Kafka Connect {KAFKA_VERSION}", (
    *((_KAFKA, f"connect-{name}", KAFKA_VERSION) for name in ("runtime", "file", "json", "transforms")),
    BROKER.modules[-1],  # the logging binding
))
TOOLS = JarSet(f"Kafka tools {KAFKA_VERSION}", ((_KAFKA, "kafka-tools", KAFKA_VERSION),))
TEST_PLUGINS = JarSet(
    f"Kafka Connect test plugins {KAFKA_VERSION}", ((_KAFKA, "connect-test-plugins", KAFKA_VERSION),))


def _say(line: str) -> None:
    if not isinstance(line, Step):
        sys.stdout.write(f"{line}\n")


if __name__ == "__main__":
    for jars in (BROKER, CONNECT, TOOLS, TEST_PLUGINS):
        resolve(jars, _say)
    host_classpath()
    schema_registry.application()
