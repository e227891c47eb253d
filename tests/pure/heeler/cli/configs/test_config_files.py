"""Files in folders, and files that cannot be read."""

from __future__ import annotations

import os

import pytest
from click.testing import CliRunner

from heeler.cli.configs.config_files import LARGEST, ConfigFileError, read_connectors
from heeler.cli.main import main
from tests.rigs.cli_fake import run


def test_a_file_that_is_not_json(fake, tmp_path):
    file = tmp_path / "c.json"
    file.write_text('{"name": "c",')
    assert f"heeler: {file}: it is not valid JSON: " in run(fake, "validate", str(file), code=2).stderr


@pytest.mark.parametrize(("text", "reason"), [
    ("name: c\nbogus\n", "it is not valid YAML: could not find expected ':': line 3 column 1"),
    ("name: c\n\tx: 1\n", "line 2 column 1"), ("a: *b\n", "undefined alias"), ("\x00", "#x0000"),
    ("[" * 600, "it is nested too deeply"),
])
def test_a_file_that_is_not_yaml(fake, tmp_path, text, reason):
    file = tmp_path / "c.yaml"
    file.write_text(text)
    said = run(fake, "validate", str(file), code=2).stderr
    assert said.startswith(f"heeler: {file}: ")
    assert reason in said
    assert "unicode string" not in said
    listed = CliRunner(env={"HEELER_PROFILES": str(file), "HEELER_URL": ""}).invoke(main, ["connectors", "list"])
    assert (listed.exit_code, reason in listed.stderr) == (2, True), listed.output


def test_a_file_that_is_too_large(fake, tmp_path):
    file = tmp_path / "c.json"
    file.write_text('{"name": "c", "connector.class": "X"}' + " " * LARGEST)
    assert "c.json exceeds 4 MiB, the limit" in run(fake, "validate", str(file), code=2).stderr
    assert fake.asked == []


CONNECTOR = "connector.class: X\n"


def test_folders_that_are_links_are_read_once(tmp_path):
    """The volumes of Kubernetes consist of links to a hidden folder."""
    shared, volume = tmp_path / ".data" / "team", tmp_path / "volume"
    shared.mkdir(parents=True)
    volume.mkdir()
    for file in (shared / "b.yaml", tmp_path / ".data" / "a.yaml", volume / "c.yaml", volume / ".d.yaml"):
        file.write_text(CONNECTOR)
    (volume / "a.yaml").symlink_to(tmp_path / ".data" / "a.yaml")
    (volume / "team").symlink_to(shared)
    (volume / "twice").symlink_to(shared)
    (shared / "around").symlink_to(volume)
    os.mkfifo(volume / "pipe.yaml")
    assert sorted(wanted.name for wanted in read_connectors([volume])) == ["a", "b", "c"]


def test_a_part_of_a_folder_that_cannot_be_read_is_an_error(tmp_path, monkeypatch):
    """If it were left out, --prune would delete its connectors."""
    (tmp_path / "a.yaml").write_text(CONNECTOR)
    (tmp_path / "gone.yaml").symlink_to(tmp_path / "nothing")
    with pytest.raises(ConfigFileError, match=f"^{tmp_path}/gone.yaml: No such file or directory$"):
        read_connectors([tmp_path])
    (tmp_path / "gone.yaml").unlink()
    (tmp_path / "closed").mkdir()
    list_of = os.scandir

    def scandir(path):  # root, as whom these tests may run, can read everything
        if str(path).endswith("closed"):
            raise PermissionError(13, "Permission denied", str(path))
        return list_of(path)

    monkeypatch.setattr(os, "scandir", scandir)
    with pytest.raises(ConfigFileError, match=f"^{tmp_path}/closed: Permission denied$"):
        read_connectors([tmp_path])


@pytest.mark.parametrize("line", [
    "db.password: '[hidden]'", "pin: '[hidden]'", "url: 'jdbc:x://h/db?user=u&password=[hidden]'",
    "url: 'http://u:[hidden]@h'",
])
def test_a_hidden_secret_is_not_written_back(tmp_path, line):
    """As in `heeler connectors show c -o json > c.json; heeler connectors apply c.json`."""
    file = tmp_path / "c.yaml"
    file.write_text(f"{CONNECTOR}{line}\nregex: 'a[hidden]b'\n")
    with pytest.raises(ConfigFileError) as error:
        read_connectors([file])
    assert f"{file}: connector c: {line.partition(':')[0]} has [hidden] in place of a secret." in str(error.value)
    assert "regex" not in str(error.value)


def test_a_name_keeps_the_spaces_that_a_worker_keeps(tmp_path):
    """Otherwise apply --prune would delete such a connector, and create another one."""
    file = tmp_path / "c.json"
    file.write_text(r'[{"name": "\u00a0c\u3000", "connector.class": "X"},'
                    r' {"name": " c\t", "connector.class": "X"}]')
    assert [wanted.name for wanted in read_connectors([file])] == ["\u00a0c\u3000", "c"]
