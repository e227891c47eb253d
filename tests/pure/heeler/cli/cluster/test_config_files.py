"""Files that cannot be read."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from heeler.cli.main import main
from tests.rigs.cli_fake import run


def test_a_file_that_is_not_json(fake, tmp_path):
    file = tmp_path / "c.json"
    file.write_text('{"name": "c",')
    assert f"heeler: {file}: it is not valid JSON: " in run(fake, "validate", str(file), code=2).stderr


@pytest.mark.parametrize(("text", "reason"), [
    ("name: c\nbogus\n", "it is not valid YAML: could not find expected ':': line 3 column 1"),
    ("name: c\n\tx: 1\n", "line 2 column 1"), ("a: *b\n", "undefined alias"), ("\x00", "#x0000"),
    ("[" * 3000, "it is nested too deeply"),
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
