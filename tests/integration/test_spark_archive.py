"""Spark's JVM with a class data archive: one run records it, later ones use it, and a damaged one does no harm."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pyspark
import pytest

from heeler.embedded_kafka.java import find_java
from spark_tasks.spark.archive import record, with_archive
from spark_tasks.spark.gateway import spark_home

pytestmark = [pytest.mark.integration, pytest.mark.nightly]


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The file that `record` leaves in a cache of its own."""
    with pytest.MonkeyPatch.context() as patch:
        cache = tmp_path_factory.mktemp("cache")
        patch.setenv("HEELER_CACHE", str(cache))
        record()
        (file,) = (cache / "spark").iterdir()
        before = file.stat().st_ino
        record()
        assert [f.stat().st_ino for f in (cache / "spark").iterdir()] == [before], "once is enough"
        yield file


def source_of(loaded: str, log: Path) -> str:
    """Where a JVM found a class of Spark's, by its log of classes."""
    (line,) = (line for line in log.read_text().splitlines() if f" {loaded} source: " in line)
    return line.partition("source: ")[2]


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def scratch(file: Path) -> None:
    data = bytearray(file.read_bytes())
    data[len(data) // 4 : len(data) // 2] = bytes(len(data) // 2 - len(data) // 4)
    file.write_bytes(data)


def of_another_program(file: Path) -> None:
    (jar,) = (spark_home() / "jars").glob("spark-launcher*.jar")
    file.unlink()
    subprocess.run(
        [find_java(), f"-XX:ArchiveClassesAtExit={file}", "-cp", jar, "org.apache.spark.launcher.Main"],
        capture_output=True, check=False,
    )
    assert file.exists()


@pytest.mark.parametrize("damage", [None, scratch, cut, of_another_program])
def test_the_jvm_starts_with_an_unusable_archive(
    archive: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damage: Callable[[Path], None] | None
) -> None:
    """A JVM that is started as the worker's says Spark's version and ends."""
    monkeypatch.setenv("HEELER_CACHE", str(tmp_path))
    (tmp_path / "spark").mkdir()
    copy, log = shutil.copyfile(archive, tmp_path / "spark" / archive.name), tmp_path / "classes.log"
    if damage is not None:
        damage(copy)
    options = with_archive({"spark.driver.extraJavaOptions": f"-Xlog:class+load:file={log}"})
    said = subprocess.run(
        [f"{spark_home()}/bin/spark-submit", "--driver-java-options", options["spark.driver.extraJavaOptions"],
         "--version"],
        env={**os.environ, "SPARK_HOME": str(spark_home())}, capture_output=True, text=True, timeout=60, check=True)
    assert f"version {pyspark.__version__}" in said.stderr
    found = source_of("org.apache.spark.deploy.SparkSubmit", log)
    assert ("spark-core" if damage else "shared objects file") in found
