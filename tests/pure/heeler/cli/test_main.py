"""The command `heeler` with standard streams that are closed or full, and for users without a home folder."""

from __future__ import annotations

import os
import pwd
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest

from heeler.cli import main as main_module
from heeler.cli.main import main
from heeler.embedded_kafka.folder import BrokerFolder
from spark_tasks.process.code_folders import python_folders
from spark_tasks.process.private_files import name_of_private, user_caches
from spark_tasks.spark.class_archive import cache_root

PROGRAM = """
import os, subprocess, sys
from heeler import __main__ as command
from heeler.cli import main

def show(**_):
    assert not sys.stdout.isatty()
    print("shown")
    subprocess.run(["sh", "-c", "echo more; echo errors >&2"], check=True)
    assert os.open(os.devnull, os.O_RDONLY) > 2

main.main = show
command.run()
"""


def shell(redirection: str, program: str) -> subprocess.CompletedProcess[str]:
    command = ["sh", "-c", f'exec "$@" {redirection}', "sh", sys.executable, "-c", program]
    return subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize(("redirection", "out", "err"), [
    (">&-", "", "errors\n"), ("<&- >&- 2>&-", "", ""),
    pytest.param("2>&-", "shown\nmore\n", "", marks=pytest.mark.nightly),
    pytest.param("<&-", "shown\nmore\n", "errors\n", marks=pytest.mark.nightly),
])
def test_a_closed_standard_stream_is_the_null_device(redirection: str, out: str, err: str) -> None:
    found = shell(redirection, PROGRAM.replace('print("shown")', 'print("shown", flush=True)'))
    assert (found.returncode, found.stdout, found.stderr) == (0, out, err)


@pytest.mark.parametrize("arguments", [
    ["--help"], pytest.param(["--version"], marks=pytest.mark.nightly), ["completion", "bash"]])
def test_a_full_disk_is_an_error_without_a_stack_trace(arguments: list[str]) -> None:
    program = f"import sys; sys.argv = {['heeler', *arguments]!r}\nfrom heeler.__main__ import run\nrun()"
    found = shell(">/dev/full", program)
    assert (found.returncode, found.stderr) == (1, "heeler: cannot write: No space left on device\n")


@pytest.fixture
def homeless(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a container that runs with any user id."""

    def unknown(_: int | str) -> Any:
        raise KeyError("uid not found")

    for name in ("HOME", "XDG_CACHE_HOME", "HEELER_CACHE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(pwd, "getpwuid", unknown)
    monkeypatch.setattr(pwd, "getpwnam", unknown)


@pytest.mark.usefixtures("homeless")
def test_caches_of_a_user_without_a_home_folder_are_temporary(monkeypatch: pytest.MonkeyPatch) -> None:
    assert user_caches() == name_of_private("cache")
    assert cache_root() == user_caches() / "heeler"
    python_folders.cache_clear()
    assert str(cache_root()) in [folder for folder, _ in python_folders()]
    python_folders.cache_clear()
    monkeypatch.setenv("HEELER_CACHE", "~/caches")
    assert cache_root() == Path("~/caches").absolute()


@pytest.mark.usefixtures("homeless")
def test_a_folder_of_a_user_who_does_not_exist_is_taken_literally(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert BrokerFolder.open(Path("~nobody/data"), "id").path == tmp_path / "~nobody" / "data"


def test_caches_are_in_the_home_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", "/home/somebody")
    assert user_caches() == Path("/home/somebody/.cache")
    monkeypatch.setenv("XDG_CACHE_HOME", f"{os.sep}caches")
    assert user_caches() == Path("/caches")


def commands(group: click.Group, place: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    for name, command in group.commands.items():
        yield (*place, name), command
        if isinstance(command, click.Group):
            yield from commands(command, (*place, name))


def test_a_command_is_in_the_file_with_its_name_or_that_of_its_group() -> None:
    found = {name: command.callback.__module__.rpartition(".")[2].rstrip("_")
             for name, command in commands(main) if command.callback is not None}
    assert {name: file for name, file in found.items() if file not in name} == {}


def test_beside_main_and_in_the_folder_of_commands_for_a_cluster_there_are_only_commands() -> None:
    of_commands = {command.callback.__module__ for _, command in commands(main) if command.callback is not None}
    folder = Path(main_module.__file__).parent
    files = [*folder.glob("*.py"), *(folder / "cluster").glob("*.py")]
    modules = {".".join(file.relative_to(folder.parents[1]).with_suffix("").parts) for file in files
               if file.stem not in ("__init__", "main")}
    assert modules - of_commands == set()
