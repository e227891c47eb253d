"""Which class archive Spark's JVM gets, and with which options."""

from __future__ import annotations

from pathlib import Path

import pytest

from spark_tasks.spark.archive import record, spark_archive, with_archive, with_java_options

# A spark-submit that leaves a part of the archive that it was told to write.
_DIES_WHILE_IT_WRITES = """#!/bin/sh
for word; do
  case "$word" in *ArchiveClassesAtExit=*) file=${word#*ArchiveClassesAtExit=}; echo cla > "${file%% *}";; esac
done
exit 3
"""
OPTIONS = "spark.driver.extraJavaOptions"


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a Java, a Spark of one jar and a cache."""
    for name in ("java/bin/java", "spark/jars/one.jar"):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).touch()
    for name in ("JAVA_HOME", "SPARK_HOME", "HEELER_CACHE"):
        monkeypatch.setenv(name, str(tmp_path / name.split("_")[int(name == "HEELER_CACHE")].lower()))
    (tmp_path / "cache" / "spark").mkdir(parents=True)
    return tmp_path


def recorded() -> list[str]:
    archive = spark_archive()
    assert archive is not None
    written = Path(archive.record_flags()[0].split("=", 1)[1])
    written.write_text("classes")
    archive.finish(clean=True)
    return archive.use_flags()


def test_an_archive_is_used_only_with_the_spark_it_was_recorded_with(machine: Path) -> None:
    assert with_archive({OPTIONS: "-Xss1m"}) == {OPTIONS: "-Xss1m"}
    flags = recorded()
    assert flags[0].startswith(f"-XX:SharedArchiveFile={machine}/cache/spark/")
    assert with_archive({OPTIONS: "-Xss1m"}) == {OPTIONS: f"{' '.join(flags)} -Xss1m"}
    (machine / "spark" / "jars" / "two.jar").touch()
    assert with_archive({}) == {OPTIONS: ""}


def test_user_options_come_last_and_archive_options_replace_heelers() -> None:
    assert with_java_options({OPTIONS: "-Xlog:gc"}, ["-XX:A=/a b", "-B"]) == {OPTIONS: "'-XX:A=/a b' -B -Xlog:gc"}
    for own in ("-Xshare:off", "-XX:SharedArchiveFile=x", "-XX:ArchiveClassesAtExit=x"):
        assert with_java_options({OPTIONS: own}, ["-B"]) == {OPTIONS: own}


@pytest.mark.parametrize("missing", ["java/bin/java", "spark/jars/one.jar"])
def test_no_archive_without_java_or_spark(machine: Path, missing: str) -> None:
    (machine / missing).unlink()
    (machine / missing).parent.rmdir()
    assert spark_archive() is None
    assert with_archive({OPTIONS: "-Xss1m"}) == {OPTIONS: "-Xss1m"}
    record()


def test_a_spark_that_does_not_start_leaves_no_archive_and_no_trace(
    machine: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (machine / "spark" / "bin").mkdir()
    script = machine / "spark" / "bin" / "spark-submit"
    script.write_text(_DIES_WHILE_IT_WRITES)
    script.chmod(0o755)
    record()
    assert "Could not record a class archive" in caplog.text
    assert list((machine / "cache" / "spark").iterdir()) == []


def test_a_cache_that_cannot_be_created_is_reported(
    machine: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("HEELER_CACHE", str(machine / "java" / "bin" / "java"))
    record()
    assert "Could not store Spark's class archive" in caplog.text
