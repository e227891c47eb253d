"""The class data archive: recorded once, kept only when whole."""

from __future__ import annotations

from pathlib import Path

import pytest

from heeler.cds import ClassArchive


@pytest.fixture
def archive(tmp_path, fake_java):
    program = fake_java() / "bin" / "java"
    jars = tmp_path / "jars"
    jars.mkdir()
    return lambda: ClassArchive(str(program), jars)


def target(flags):
    return next(f.split("=", 1)[1] for f in flags if f.startswith("-XX:ArchiveClassesAtExit="))


def test_it_is_recorded_once_and_used_afterwards(archive, tmp_path):
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
    assert third.use_flags()[0].startswith(f"-XX:SharedArchiveFile={tmp_path}/jars/classes-")
    assert not third.recording
    assert len(list((tmp_path / "jars").iterdir())) == 1


def test_what_a_killed_process_left_is_not_used(archive, tmp_path):
    made = archive()
    with Path(target(made.record_flags())).open("w") as file:
        file.write("cla")
    made.finish(clean=False)
    assert list((tmp_path / "jars").iterdir()) == []
    assert archive().use_flags() == []
