"""Which changes of files restart `heeler run`."""

from __future__ import annotations

import os
import time

import pytest

from heeler.cli.support.code_watch import ChangedError, CodeWatch


@pytest.fixture
def project(tmp_path):
    for name in ("app.py", "helpers/text.py", ".venv/lib/x.py", "env/pyvenv.cfg", "env/lib/y.py", "notes.txt",
                 "site-packages/other.py", "site-packages/library/z.py"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
        os.utime(path, (1, 1))
    return tmp_path


def started(project, folder, files=("connector.yaml",)):
    paths = [project / name for name in files]
    for path in paths:
        path.touch()
        os.utime(path, (1, 1))
    watch = CodeWatch(paths)
    watch.start(folder)
    watch.check()
    return watch


@pytest.mark.parametrize("name", ["app.py", "helpers/text.py", "helpers/new.py", "connector.yaml"])
def test_a_changed_or_new_file_is_named(project, name):
    watch = started(project, project)
    (project / name).write_text("x = 1")
    with pytest.raises(ChangedError, match=f"{name} has changed") as caught:
        watch.check()
    assert caught.value.folder == project


def test_a_removed_file_is_named(project):
    watch = started(project, project)
    (project / "app.py").unlink()
    with pytest.raises(ChangedError, match=r"app\.py has changed"):
        watch.check()


@pytest.mark.parametrize("name", [".venv/lib/x.py", "env/lib/y.py", "notes.txt", "site-packages/library/z.py"])
def test_libraries_and_other_files_are_not_watched(project, name):
    watch = started(project, project)
    (project / name).write_text("x = 1")
    watch.check()


def test_a_connector_that_is_installed_as_one_file_does_not_watch_its_neighbors(project):
    watch = started(project, project / "site-packages")
    (project / "site-packages/library/z.py").write_text("x = 1")
    watch.check()
    (project / "site-packages/other.py").write_text("x = 1")
    with pytest.raises(ChangedError):
        watch.check()


def test_a_change_between_creation_and_start_counts(project):
    watch = CodeWatch([project / "connector.yaml"])
    later = time.time_ns() + 1
    while time.time_ns() <= later:
        pass
    os.utime(project / "app.py", ns=(later, later))
    watch.start(project)
    with pytest.raises(ChangedError, match=r"app\.py"):
        watch.check()


def test_a_file_of_the_future_does_not_restart_again_and_again(project):
    os.utime(project / "app.py", (2**33, 2**33))
    started(project, project)


def test_without_files_nothing_is_watched(project):
    watch = started(project, project, files=())
    (project / "app.py").write_text("x = 1")
    watch.check()
