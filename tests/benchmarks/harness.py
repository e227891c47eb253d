"""Shared parts of benchmarks that run Java Kafka Connect and heeler with the harness of docs/benchmarks.md."""

from __future__ import annotations

import argparse
import signal
import sys
from importlib import import_module
from pathlib import Path
from typing import Any


def arguments(about: str | None, port: int) -> argparse.ArgumentParser:
    """A parser that knows where the harness is, where it keeps its files, and when it may begin."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--harness", type=Path, default=Path("../shared/bench"))
    parser.add_argument("--home", type=Path, default=Path("~/.cache/connect-bench").expanduser())
    parser.add_argument("--port", type=int, default=port)
    parser.add_argument("--quiet", type=float, default=0.3, help="wait until others use no more than so many cores")
    return parser


def load(asked: argparse.Namespace) -> tuple[Any, Any, Any]:
    """The harness's modules `rig` and `workloads`, and a rig with all jars, not started."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that what was started here is stopped
    sys.path.insert(0, str(asked.harness.resolve()))
    rigs, workloads = import_module("rig"), import_module("workloads")
    rig = rigs.Rig(asked.home, asked.port, "4.3.1")
    rig.fetch_jars()
    return rigs, workloads, rig


def heeler(rigs: Any) -> Any:
    """heeler as a system of the harness; Java's is `rig.java_system()`."""
    return rigs.System("heeler", (sys.executable, "-m", "heeler", "worker", "{properties_file}"))
