"""Kafka's own command line tools, and Java programs in addition to them."""

from __future__ import annotations

import subprocess

from heeler.embedded_kafka.jars import classpath, resolve
from heeler.embedded_kafka.java import find_java
from tests.rigs.jar_sets import TOOLS

_LONGEST_S = 60.0


def java(program: str, *arguments: str) -> list[list[str]]:
    """The words of each line that a Java program prints. Raises subprocess.SubprocessError if it fails."""
    command = [find_java(), "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", classpath(resolve(TOOLS)), program]
    said = subprocess.run([*command, *arguments], check=True, capture_output=True, text=True, timeout=_LONGEST_S).stdout
    return [line.split() for line in said.splitlines() if line.strip()]


def abort_hanging_transactions(servers: str, topics: list[str]) -> list[str]:
    """Abort transactions that are open in a partition but completed for their coordinator (KIP-664), if they are older
    than a minute: readers of committed records wait for them forever. Returns what was aborted.
    """
    tool = ("org.apache.kafka.tools.TransactionsCommand", "--bootstrap-server", servers)
    aborted = []
    for topic in topics:
        _, *found = java(*tool, "find-hanging", "--topic", topic, "--max-transaction-timeout", "1") or [[]]
        for _, partition, producer, _, _, start, *_ in found:
            java(*tool, "abort", "--topic", topic, "--partition", partition, "--start-offset", start)
            aborted.append(f"producer {producer} at {topic}-{partition}:{start}")
    return aborted
