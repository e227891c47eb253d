"""The host reads and writes JSON without a tree, and exactly as Kafka's JsonConverter does."""

import subprocess
from pathlib import Path

import pytest

from heeler.embedded_kafka.java import find_java
from heeler.java_host.host_classpath import host_classpath
from tests.rigs.java_jars import compile_classes

DRIVER = Path(__file__).parents[1] / "golden/json/JsonDifferences.java"
CASES = 1500
pytestmark = pytest.mark.integration

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]


def test_json_is_read_and_written_as_by_kafkas_converter(tmp_path):
    """Random schemas and values, damaged texts, all options; most cases must not fall back to Java."""
    jars = host_classpath()
    compile_classes([DRIVER], jars, tmp_path)
    done = subprocess.run(
        [find_java(), "-Dorg.slf4j.simpleLogger.defaultLogLevel=error", "-Xmx256m", "-cp", f"{tmp_path}:{jars}",
         "heeler.host.JsonDifferences", str(CASES), "7"],
        capture_output=True, text=True, errors="replace", timeout=300, check=True)
    *differences, counts = done.stdout.splitlines()
    assert differences == []
    cases, decided = map(int, counts.split())
    assert cases == CASES
    assert decided > CASES * 0.9
