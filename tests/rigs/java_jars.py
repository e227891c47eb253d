"""Jars of Java plugins for tests: Kafka's own, and misbehaving ones that are compiled from tests/rigs/java."""

from __future__ import annotations

import os
import shutil
import subprocess
import zipfile
from collections.abc import Iterable
from pathlib import Path

from heeler.embedded_kafka.jars import classpath, locked, resolve
from heeler.embedded_kafka.java import find_java
from heeler.java_host.host_classpath import COMPILER, RUNTIME, host_classpath
from heeler.java_host.manifests import MANIFESTS, PROVIDERS
from tests.rigs.jar_sets import CONNECT

SOURCES = Path(__file__).with_name("java")
_NAMES = {
    "source.SourceConnector": "ModeSource Script StuckSource Choices Choices$Undefined Choices$Failing",
    "sink.SinkConnector": "NoteSink PlainSink",
    "transforms.Transformation": "Measured$Pass Measured$Picky Choices$Link Slow",
    "transforms.predicates.Predicate": "Choices$Test Doubtful",
    "storage.Converter": "Measured$Longs Measured$Capitals Choices$Coder Script$Strict",
}
_PROVIDERS = "org/apache/kafka/common/config/provider/"


def plugin_folder(folder: Path) -> Path:
    """A folder for plugin.path: connect-file, connect-json, Kafka's config providers, the misbehaving plugins (7.1, and
    an older 6.0), a file that is not a jar, and a class for a Java version that does not exist yet. Everything is
    downloaded before.
    """
    host_classpath()
    for name in ("file", "json", "mode", "older", "broken", "newer"):
        (folder / name).mkdir(parents=True)
    for name in ("file", "json"):
        (jar,) = resolve(CONNECT).glob(f"connect-{name}-*.jar")
        shutil.copy(jar, folder / name)
    (clients,) = resolve(RUNTIME).glob("kafka-clients-*.jar")
    with zipfile.ZipFile(clients) as theirs, zipfile.ZipFile(folder / "providers.jar", "w") as archive:
        for name in theirs.namelist():
            if name == PROVIDERS or (name.startswith(_PROVIDERS) and name.endswith(".class")):
                archive.writestr(name, theirs.read(name))
    compile_into(folder / "mode" / "mode.jar")
    shutil.copy(folder / "mode" / "mode.jar", folder / "older" / "mode.jar")
    for name, version in (("mode", "7.1"), ("older", "6.0")):
        with zipfile.ZipFile(folder / name / "mode.jar", "a") as archive:
            archive.writestr("version.txt", version)
    with (zipfile.ZipFile(folder / "mode" / "mode.jar") as ours,
          zipfile.ZipFile(folder / "newer" / "newer.jar", "w") as archive):
        code = bytearray(ours.read("heeler/tests/ModeSource.class"))
        code[6:8] = (2000).to_bytes(2, "big")
        archive.writestr("heeler/tests/Newer.class", bytes(code))
        archive.writestr(f"{MANIFESTS}source.SourceConnector", "heeler.tests.Newer\n")
    (folder / "broken" / "broken.jar").write_bytes(b"PK\3\4 no jar")
    return folder


def compile_classes(sources: Iterable[Path], jars: str, into: Path) -> None:
    """Compile with the compiler that compiles the host."""
    subprocess.run(
        [find_java(), "-jar", classpath(resolve(COMPILER)), "--release", "17", "-nowarn", "-proc:none",
         "-d", str(into), "-classpath", jars, *map(str, sources)],
        check=True, timeout=120)


def compile_into(jar: Path) -> None:
    """Compile tests/rigs/java into a jar with a manifest; once in a run of tests, because it takes a JVM seconds."""
    run = os.environ.get("HEELER_TESTS_TEMPORARY")  # the folder that all processes of a run share (conftest.py)
    if run is None:
        _compile(jar)
        return
    made = Path(run, "mode.jar")
    with locked(made.with_suffix(".lock")):
        if not made.exists():
            _compile(made.with_suffix(".new"))
            made.with_suffix(".new").rename(made)
    shutil.copy(made, jar)


def _compile(jar: Path) -> None:
    classes = jar.with_suffix("")
    compile_classes(SOURCES.glob("*.java"), classpath(resolve(RUNTIME)), classes)
    with zipfile.ZipFile(jar, "w") as archive:
        for file in sorted(classes.rglob("*.class")):
            archive.write(file, file.relative_to(classes))
        for kind, names in _NAMES.items():
            archive.writestr(MANIFESTS + kind, "".join(f"heeler.tests.{name}\n" for name in names.split()))
        archive.writestr(PROVIDERS, "heeler.tests.Vault\n")
    shutil.rmtree(classes)
