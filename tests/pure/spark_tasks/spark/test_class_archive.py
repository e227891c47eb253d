"""The class data archive: it is recorded once, and kept only if it is complete."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from spark_tasks.spark.class_archive import ClassArchive


@pytest.fixture
def jars(tmp_path):
    folder = tmp_path / "jars"
    folder.mkdir()
    return folder


@pytest.fixture
def archive(tmp_path, jars):
    program = tmp_path / "java"
    program.touch()
    return lambda *more: ClassArchive(str(program), jars, *more)


def target(flags):
    return next(f.split("=", 1)[1] for f in flags if f.startswith("-XX:ArchiveClassesAtExit="))


def test_an_archive_is_recorded_once_and_used_afterwards(archive, jars):
    first, second = archive(), archive()
    assert first.use_flags() == []
    written = target(first.record_flags())
    assert first.recording
    assert target(second.record_flags()) != written  # two at once do not write one file
    with Path(written).open("w") as file:
        file.write("classes")
    first.finish(clean=True)
    second.finish(clean=True)  # wrote nothing
    assert not first.recording
    third = archive()
    assert third.record_flags() == third.use_flags()
    assert third.use_flags()[0].startswith(f"-XX:SharedArchiveFile={jars}/classes-")
    assert not third.recording
    assert len(list(jars.iterdir())) == 1


def test_other_jars_or_another_java_use_another_archive(archive, tmp_path):
    made = archive("a.jar")
    Path(target(made.record_flags())).write_text("classes")
    made.finish(clean=True)
    assert archive("a.jar").use_flags() != []
    assert archive("b.jar").use_flags() == []
    os.utime(tmp_path / "java", (1, 1))
    assert archive("a.jar").use_flags() == []


def test_files_of_killed_processes_are_not_used_and_eventually_deleted(archive, jars):
    made = archive()
    with Path(target(made.record_flags())).open("w") as file:
        file.write("cla")
    made.finish(clean=False)
    assert list(jars.iterdir()) == []
    assert archive().use_flags() == []
    for name, age in (("old", 1e9), ("new", 4e9)):
        (jars / f".classes-{name}.jsa").touch()
        os.utime(jars / f".classes-{name}.jsa", (age, age))
    archive().record_flags()
    assert [file.name for file in jars.iterdir()] == [".classes-new.jsa"]


def test_the_archives_used_last_are_kept(archive, jars):
    for number in range(6):
        made = archive(f"{number}.jar")
        written = Path(target(made.record_flags()))
        before = {*jars.iterdir()}
        written.write_text("classes")
        made.finish(clean=True)
        for file in {*jars.iterdir()} - before:
            os.utime(file, (number, number))
        assert archive("0.jar").use_flags() != []  # touches it
    assert [bool(archive(f"{number}.jar").use_flags()) for number in range(6)] == [True, *[False] * 2, *[True] * 3]


def test_a_truncated_archive_is_not_used_but_recorded_again(archive, jars):
    made = archive()
    Path(target(made.record_flags())).write_text("classes")
    made.finish(clean=True)
    (file,) = jars.iterdir()
    file.write_text("clas")
    assert archive().use_flags() == []
    assert target(archive().record_flags())


def test_a_folder_that_cannot_be_written_has_no_archive(archive, jars):
    jars.rmdir()
    assert archive().record_flags() == []
