"""The jar cache, with a script in place of Java and Ivy."""

from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from heeler.embedded_kafka.jars import BROKER, JarSet, Step, cache_root, classpath, is_complete, resolve
from heeler.errors import SetupError

JARS = JarSet("Some Jars 1.0", (("org.x", "one", "1.0"),))


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("HEELER_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("IVY_DOES", "")
    return tmp_path / "cache"


def runs(home):
    file = home / "bin" / "runs"
    return len(file.read_text().splitlines()) if file.exists() else 0


def names(folder):
    return sorted(x.name for x in folder.iterdir())


def test_jars_are_fetched_once(cache, fake_java):
    home, said = fake_java(), []
    folder = resolve(JARS, said.append)
    assert folder == cache / JARS.folder
    assert names(folder) == ["files.json", "one-1.0.jar", "two-1.0.jar"]
    assert resolve(JARS, said.append) == folder
    assert runs(home) == 1
    assert classpath(folder) == f"{folder}/one-1.0.jar{os.pathsep}{folder}/two-1.0.jar"
    assert said[0].startswith("Some Jars 1.0 is not on this machine yet")
    assert [line for line in said[1:] if not isinstance(line, Step)] == [], "one line where there is no bar"
    assert [(line, line.done, line.total) for line in said[-2:]] == [
        ("Some Jars 1.0: two-1.0.jar", 1, 0), (f"Some Jars 1.0: 0 MB in {folder}", 2, 2),
    ]  # fmt: skip


def test_an_incomplete_download_leaves_nothing_to_use(cache, fake_java, monkeypatch):
    fake_java()
    monkeypatch.setenv("IVY_DOES", "echo '  connection refused: host' ; exit 1")
    with pytest.raises(SetupError, match=r"Cannot fetch Some Jars 1\.0.*registry.*connection refused.*mirror"):
        resolve(JARS)
    assert names(cache) == [".jars.lock"]
    monkeypatch.setenv("IVY_DOES", "")
    assert is_complete(resolve(JARS))


@pytest.mark.parametrize(("ivy", "said"), [
    (["  module not found: org.x#one;1.0", "  :: org.x#one;1.0: not found"], "does not have org.x:one:1.0. Check"),
    (["io problem: Impossible to load parent for file:/a. Parent=org.x#all;1)", "module not found: org.x#one;1.0"],
     "does not have org.x:all:1. Check"),
    (["  module not found: org.x#one;1.0", "Server access error at url u (ConnectException: Connection refused)"],
     "could not be reached or lacks a file, .*Connection refused"),
    (["Host h not found. url=u", "  module not found: org.x#one;1.0"], r"could not be reached .*\(Host h not found\)"),
])
def test_a_missing_artifact_and_an_unreachable_registry_are_told_apart(cache, fake_java, monkeypatch, ivy, said):
    """Lines that Ivy prints."""
    fake_java()
    monkeypatch.setenv("IVY_DOES", "; ".join(f"echo '{line}'" for line in ivy) + "; exit 1")
    with pytest.raises(SetupError, match=said):
        resolve(JARS)


@pytest.mark.parametrize("damage", ["truncate", "remove", "list"])
def test_a_damaged_copy_is_downloaded_again(cache, fake_java, damage):
    home = fake_java()
    folder = resolve(JARS)
    match damage:
        case "truncate":
            (folder / "two-1.0.jar").write_text("tw")
        case "remove":
            (folder / "two-1.0.jar").unlink()
        case "list":
            (folder / "files.json").write_text("{")
    said = []
    assert is_complete(resolve(JARS, said.append))
    assert runs(home) == 2
    assert any("is damaged; replacing it" in line for line in said)


def test_concurrent_calls_fetch_jars_once(cache, fake_java, monkeypatch):
    home = fake_java()
    monkeypatch.setenv("IVY_DOES", "sleep 0.3")
    threads = [threading.Thread(target=resolve, args=(JARS,)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert runs(home) == 1
    assert is_complete(cache / JARS.folder)


def test_sets_are_fetched_one_after_the_other(cache, fake_java, monkeypatch, tmp_path):
    """They share a cache of Ivy's, in which one run replaces the files of another."""
    fake_java()
    busy = tmp_path / "busy"
    monkeypatch.setenv("IVY_DOES", f"mkdir {busy} || exit 1; sleep 0.2; rmdir {busy}")
    others = [JarSet(f"Some Jars {number}", JARS.modules) for number in range(3)]
    with ThreadPoolExecutor() as pool:
        assert all(map(is_complete, pool.map(resolve, others)))


def test_a_cache_that_cannot_be_written(tmp_path, monkeypatch, fake_java):
    fake_java()
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("HEELER_CACHE", str(tmp_path / "file" / "cache"))
    with pytest.raises(SetupError, match=r"Cannot write to the cache.*HEELER_CACHE"):
        resolve(JARS)


def test_the_cache_folder_follows_the_environment(monkeypatch, tmp_path):
    monkeypatch.delenv("HEELER_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_root() == tmp_path / "heeler"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_root() == tmp_path / ".cache" / "heeler"


def test_other_modules_get_another_folder():
    assert len({BROKER.folder, JARS.folder, JarSet(JARS.title, ()).folder}) == 3
