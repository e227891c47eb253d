"""Finds the Java that runs the embedded Kafka (and, through PySpark, Spark)."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from functools import cache
from pathlib import Path

from heeler.errors import SetupError

MINIMUM = 17
_INSTALL = (
    f"Install a Java runtime, version {MINIMUM} or newer (Debian and Ubuntu: apt-get install openjdk-17-jre-headless, "
    "Fedora: dnf install java-17-openjdk-headless, macOS: brew install openjdk@17), or point JAVA_HOME at one."
)


def find_java() -> str:
    """The path of a Java program of version 17 or newer: JAVA_HOME's, else the PATH's.

    Raises SetupError if no Java is found, or one that is too old.
    """
    return _checked(os.environ.get("JAVA_HOME", ""), os.environ.get("PATH", ""))


@cache
def _checked(java_home: str, path: str) -> str:
    program = str(Path(java_home) / "bin" / "java") if java_home else shutil.which("java", path=path)
    if program is None or not os.access(program, os.X_OK):
        where = f"JAVA_HOME ({java_home}) does not contain bin/java" if java_home else "there is no java on the PATH"
        raise SetupError(f"No Java found: {where}. {_INSTALL}")
    version = java_version(program)
    if version < MINIMUM:
        raise SetupError(f"{program} is Java {version}, which is too old. {_INSTALL}")
    return program


def java_version(program: str) -> int:
    """The feature version (8, 11, 17, …) that a Java program reports. Raises SetupError if it reports none."""
    try:
        output = subprocess.run(  # noqa: S603 - the program is the user's own Java
            [program, "-version"], capture_output=True, text=True, timeout=30, check=False
        ).stderr
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SetupError(f"Could not run {program}: {error}. {_INSTALL}") from error
    match = re.search(r'version "(\d+)(?:\.(\d+))?', output)
    if match is None:
        raise SetupError(f"{program} did not report its version (it printed {output.strip()[:200]!r}). {_INSTALL}")
    major = int(match[1])
    return int(match[2] or 0) if major == 1 else major  # "1.8.0_392" is Java 8
