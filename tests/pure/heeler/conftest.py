"""Stand-ins for Java: shell scripts that answer as java and as Ivy do."""

from __future__ import annotations

from pathlib import Path

import pytest

# Says its version; as Ivy it "downloads" the two files into the folder of -retrieve, after doing what $IVY_DOES says.
_SCRIPT = r"""#!/bin/sh
case "$*" in *-version*) echo 'openjdk version "VERSION" 2025-04-15' >&2; exit 0;; esac
echo run >> "$(dirname "$0")/runs"
while [ $# -gt 0 ]; do [ "$1" = -retrieve ] && target=$(dirname "$2"); shift; done
mkdir -p "$target"
printf one > "$target/one-1.0.jar"
eval "$IVY_DOES"
echo 'downloading x/two-1.0.jar ...'
printf two2 > "$target/two-1.0.jar"
"""


@pytest.fixture
def fake_java(tmp_path, monkeypatch):
    """Makes a Java home of a version, points JAVA_HOME at it and answers its folder (runs are counted in `runs`)."""

    def make(version: str = "17.0.15") -> Path:
        home = tmp_path / f"java-{version}"
        program = home / "bin" / "java"
        program.parent.mkdir(parents=True)
        program.write_text(_SCRIPT.replace("VERSION", version))
        program.chmod(0o755)
        monkeypatch.setenv("JAVA_HOME", str(home))
        return home

    return make
