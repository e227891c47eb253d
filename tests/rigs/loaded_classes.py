"""What a JVM that runs with -Xlog:class+load says of its classes."""

from __future__ import annotations

from pathlib import Path


def source_of(name: str, log: Path) -> str:
    """Where the JVM found the class: a jar, or "shared objects file" for an archive."""
    (line,) = (line for line in log.read_text().splitlines() if f" {name} source: " in line)
    return line.partition("source: ")[2]
