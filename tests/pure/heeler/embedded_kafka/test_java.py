"""Finding a Java that is new enough."""

from __future__ import annotations

import pytest

from heeler.embedded_kafka.java import find_java, java_version
from heeler.errors import SetupError


@pytest.mark.parametrize(
    ("said", "version"), [("17.0.15", 17), ("25", 25), ("21-ea", 21), ("1.8.0_392", 8), ("11.0.2", 11)]
)
def test_java_versions_are_parsed(fake_java, said, version):
    assert java_version(str(fake_java(said) / "bin" / "java")) == version


def test_java_home_is_used(fake_java):
    home = fake_java()
    assert find_java() == str(home / "bin" / "java")


def test_the_error_for_an_outdated_java_says_what_to_install(fake_java):
    fake_java("11.0.2")
    with pytest.raises(SetupError, match=r"is Java 11, which is too old\. Install.*17.*apt-get install"):
        find_java()


def test_the_error_for_a_missing_java_says_what_to_install(monkeypatch, tmp_path):
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SetupError, match=r"no java on the PATH\. Install.*JAVA_HOME"):
        find_java()
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(SetupError, match=f"JAVA_HOME \\({tmp_path}\\) does not contain bin/java"):
        find_java()


def test_a_program_that_is_not_java_is_refused(tmp_path):
    program = tmp_path / "java"
    program.write_text("#!/bin/sh\necho coffee >&2\n")
    program.chmod(0o755)
    with pytest.raises(SetupError, match=r"did not report its version.*coffee"):
        java_version(str(program))
    with pytest.raises(SetupError, match="Could not run"):
        java_version(str(tmp_path / "none"))
