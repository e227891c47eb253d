"""Files that other users of the machine cannot access."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from heeler.embedded_kafka.folder import BrokerFolder
from heeler.embedded_kafka.guard import GuardedProcess
from spark_tasks.process.private_files import memory_file, open_private, private_folder, trusted
from spark_tasks.spark.class_archive import ClassArchive


@pytest.fixture(autouse=True)
def careless(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A user whose files are for everybody."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    before = os.umask(0)
    yield
    os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_folder_is_the_same_each_time() -> None:
    folder = private_folder("x")
    assert (mode(folder), private_folder("x")) == (0o700, folder)


@pytest.mark.parametrize("taken", [
    lambda path: path.mkdir(mode=0o755), lambda path: path.symlink_to(path.with_name("own")),
    lambda path: path.touch(mode=0o600), lambda path: path.symlink_to(path.with_name("nowhere")),
])
def test_a_private_folder_gets_another_name_if_its_own_is_taken(tmp_path: Path, taken) -> None:
    (tmp_path / "own").mkdir(mode=0o700)
    taken(tmp_path / f"heeler-x-{os.getuid()}")
    folder = private_folder("x")
    assert folder.name.startswith("heeler-x-")
    assert folder.name != f"heeler-x-{os.getuid()}"
    assert mode(folder) == 0o700


def test_logs_configurations_and_broker_folders_are_private(tmp_path: Path) -> None:
    GuardedProcess(["true"], tmp_path / "log").wait(10)
    with open_private(tmp_path / "file", "w") as file:
        file.write("x")
    broker = BrokerFolder.open(tmp_path / "broker", "id")
    written = broker.write_config({"a": "b"})
    broker.release()
    assert [mode(p) for p in (tmp_path / "log", tmp_path / "file", tmp_path / "broker", written)] == [
        0o600, 0o600, 0o700, 0o600]


@pytest.mark.parametrize("in_memory", [True, False])
def test_a_file_in_memory_is_private_and_ends_with_its_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, in_memory: bool
) -> None:
    """Where there are none, it is a temporary file until then."""
    def forbidden(*_: object) -> int:
        raise PermissionError("by the sandbox")

    if not in_memory:
        monkeypatch.setattr(os, "memfd_create", forbidden)
    with memory_file(b"key") as file:
        assert [Path(file).read_bytes(), Path(file).read_bytes()] == [b"key", b"key"]
        assert mode(Path(file)) == 0o600
        folders = list(tmp_path.iterdir())
        assert (folders == []) is in_memory
        assert [mode(folder) for folder in folders] in ([], [0o700])
    assert list(tmp_path.iterdir()) == []


def test_a_file_in_memory_is_gone_after_kill_9(tmp_path: Path) -> None:
    code = """import sys
from spark_tasks.process.private_files import memory_file
with memory_file(b"key") as file:
    print(open(file).read(), flush=True)
    sys.stdin.read()"""
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                          env={**os.environ, "TMPDIR": str(tmp_path)}) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "key\n"
        process.kill()
    assert list(tmp_path.iterdir()) == []


def test_an_archive_of_classes_that_others_can_write_is_not_used(tmp_path: Path) -> None:
    java, folder = tmp_path / "java", tmp_path / "cache"
    java.touch()
    folder.mkdir(mode=0o755)
    archive = ClassArchive(str(java), folder)
    flag = next(f for f in archive.record_flags() if "ArchiveClassesAtExit" in f)
    recorded = Path(flag.partition("=")[2])
    recorded.touch(mode=0o644)
    recorded.write_text("classes")
    archive.finish(clean=True)
    (file,) = folder.iterdir()
    assert trusted(file)
    assert archive.use_flags() != []
    for path in (file, folder):
        before = mode(path)
        path.chmod(before | 0o002)
        assert archive.use_flags() == []
        path.chmod(before)
