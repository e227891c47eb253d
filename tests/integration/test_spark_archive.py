"""Spark's JVM with a class data archive: one run leaves it behind, later ones use it, a damaged one harms none."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from heeler.embedded_kafka.java import find_java
from spark_tasks.spark.archive import record
from spark_tasks.spark.engine import SparkEngine
from spark_tasks.spark.gateway import spark_home
from tests.rigs.splits import Answer

pytestmark = pytest.mark.integration


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


def loaded_from(tmp_path: Path) -> str:
    """Starts an engine as a worker does and answers where its JVM found Spark's central class."""
    log = tmp_path / "classes.log"
    engine = SparkEngine({"spark.driver.extraJavaOptions": f"-Xlog:class+load:file={log}"})
    try:
        engine.start()
        assert engine.submit("a-0", [Answer(1)]).result(60) == [1]
    finally:
        engine.close()
    (line,) = (line for line in log.read_text().splitlines() if "org.apache.spark.SparkContext source:" in line)
    return line.partition("source: ")[2]


def test_a_worker_uses_what_was_recorded(archive: Path, tmp_path: Path) -> None:
    assert "shared objects file" in loaded_from(tmp_path)


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


@pytest.mark.parametrize("damage", [cut, scratch, of_another_program])
def test_a_useless_archive_does_no_harm(
    archive: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damage: Callable[[Path], None]
) -> None:
    monkeypatch.setenv("HEELER_CACHE", str(tmp_path))
    (tmp_path / "spark").mkdir()
    damaged = shutil.copyfile(archive, tmp_path / "spark" / archive.name)
    damage(damaged)
    assert "spark-core" in loaded_from(tmp_path)
