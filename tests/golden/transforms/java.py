"""The Java driver: compiled with this machine's javac into a temporary folder; lines in, lines out."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterable
from pathlib import Path

from heeler.embedded_kafka.jars import JarSet, classpath, resolve
from heeler.embedded_kafka.java import find_java
from tests.rigs.jar_sets import CONNECT

SOURCE = Path(__file__).with_name("Driver.java")


def run_driver(lines: Iterable[str], *arguments: str, source: Path = SOURCE, jar_set: JarSet = CONNECT) -> list[str]:
    """One line of answer for each line; needs a JDK (javac) and, once, the network for the jars."""
    jars, javac = classpath(resolve(jar_set)), shutil.which("javac")
    if javac is None:
        raise RuntimeError("the differential test compiles Driver.java: install a JDK (javac)")
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([javac, "-nowarn", "-Xlint:none", "-cp", jars, "-d", folder, str(source)], check=True)
        command = [
            find_java(),
            "-Xmx512m",
            "-XX:+UseSerialGC",
            "-Dorg.slf4j.simpleLogger.defaultLogLevel=off",
            "-cp",
            os.pathsep.join((folder, jars)),
            "Driver",
            *arguments,
        ]
        done = subprocess.run(
            command, input="\n".join(lines) + "\n", capture_output=True, text=True, check=False, encoding="utf-8"
        )
    if done.returncode:
        raise RuntimeError(done.stderr)
    return done.stdout.split("\n")[:-1]
