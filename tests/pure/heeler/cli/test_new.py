"""`heeler new connector`: the generated package works unchanged."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib

import pytest
from click.testing import CliRunner

from heeler.cli.main import main
from spark_tasks.plugins import Kind, Plugins


def new(folder, name, *words, code=0):
    done = CliRunner().invoke(main, ["new", "connector", name, "--folder", str(folder), *words])
    assert done.exit_code == code, done.output
    return folder / name


@pytest.mark.integration  # a process of its own
@pytest.mark.parametrize(("name", "kind", "tests"), [("water-level", "source", 2), ("archive", "sink", 3)])
def test_the_tests_of_a_new_package_pass(tmp_path, name, kind, tests):
    package = new(tmp_path, name, "--kind", kind)
    done = subprocess.run([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"], cwd=package,
                          capture_output=True, text=True, timeout=170, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{tests} passed" in done.stdout


@pytest.mark.parametrize(("name", "kind", "cls"), [
    ("water-level", "source", "WaterLevelSourceConnector"), ("archive_sink", "sink", "ArchiveSinkConnector")])
def test_workers_find_the_new_connector_and_its_file_can_be_tried(tmp_path, name, kind, cls):
    package = new(tmp_path, name, "--kind", kind)
    module = name.replace("-", "_")
    shown = f"{module}.connector.{cls}"
    [(point, target)] = tomllib.loads((package / "pyproject.toml").read_text())[
        "project"]["entry-points"]["heeler.connectors"].items()
    assert target == f"{module}.connector:{cls}"
    assert point == f"{module}.{cls}"
    plugins = Plugins([str(tmp_path)], installed=())
    assert shown in plugins.names(Kind.CONNECTOR)
    assert plugins.connector_type({"connector.class": cls}) == kind
    worker = tmp_path / "worker.properties"
    converter = "org.apache.kafka.connect.json.JsonConverter"
    worker.write_text(f"bootstrap.servers=127.0.0.1:1\ngroup.id=g\nplugin.path={tmp_path}\nkey.converter={converter}\n"
                      f"value.converter={converter}\n"
                      + "".join(f"{kind}.storage.topic={kind}\n" for kind in ("config", "offset", "status")))
    more = ["--records", str(package / "records.jsonl")] if kind == "sink" else []
    done = CliRunner().invoke(main, ["try", str(package / "connector.yaml"), "--worker-config", str(worker), *more,
                                     "--limit", "2", "-o", "json"], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    assert [len(stage["records"]) for stage in json.loads(done.stdout)["stages"]] == [2] * (3 if kind == "sink" else 2)


@pytest.mark.parametrize("name", ["Big", "1st", "a b", "../up", "heeler", "spark-tasks", "numbers", "a--b", "", "é",
                                  "lambda", "null", "numpy"])
def test_invalid_package_names_are_refused(tmp_path, name):
    new(tmp_path, name, code=2)
    assert list(tmp_path.iterdir()) == []


def test_existing_files_are_not_overwritten(tmp_path):
    file = new(tmp_path, "mine") / "connector.yaml"
    file.write_text("changed")
    new(tmp_path, "mine", code=2)
    assert file.read_text() == "changed"
