"""`heeler validate`."""

from __future__ import annotations

import json

from tests.rigs.cli_fake import run


def test_validate_shows_what_is_wrong(fake, tmp_path):
    file = tmp_path / "c.properties"
    file.write_text("name=c\nconnector.class=a.X\nsecret.pin=hunter2\n")
    wrong = {"definition": {"name": "secret.pin", "type": "PASSWORD"},
             "value": {"name": "secret.pin", "value": "hunter2", "errors": ["hunter2 is no number"]}}
    fake.answers["PUT /connector-plugins/a.X/config/validate"] = (200, {"configs": [wrong], "error_count": 1})
    done = run(fake, "validate", str(file), code=1)
    assert done.stdout.splitlines()[1].split() == ["c", "secret.pin", "[hidden]", "[hidden]", "is", "no", "number"]
    assert "hunter2" not in done.output


def test_an_unknown_class_is_a_configuration_error(fake, tmp_path):
    """Workers respond with 500, but the error is not theirs; other files are checked too."""
    (tmp_path / "a.properties").write_text("name=a\nconnector.class=Nonesuch\n")
    (tmp_path / "b.properties").write_text("name=b\nconnector.class=X\n")
    words = "Failed to find any class that implements Connector and which name matches Nonesuch, available"
    fake.answers["PUT /connector-plugins/Nonesuch/config/validate"] = (
        500, {"error_code": 500, "message": f"org.apache.x.BadRequestException: {words}"})
    key = {"definition": None, "value": {"name": "b.name", "value": "b", "errors": ["wrong, too"]}}
    fake.answers["PUT /connector-plugins/X/config/validate"] = (200, {"configs": [key]})
    done = run(fake, "validate", str(tmp_path), code=1)
    assert [line.split()[:3] for line in done.stdout.splitlines()[1:]] == [
        ["a", "connector.class", "Nonesuch"], ["b", "b.name", "b"]]
    assert "BadRequestException" not in done.output
    [said, _] = json.loads(run(fake, "validate", str(tmp_path), "-o", "json", code=1).stdout)
    assert said["errors"] == {"connector.class": [words]}
    fake.answers["PUT /connector-plugins/Nonesuch/config/validate"] = (500, {"error_code": 500, "message": "timed out"})
    run(fake, "validate", str(tmp_path), code=7)
