"""`heeler connectors apply`."""

from __future__ import annotations

import json

from spark_tasks.config.masking import process_secrets
from tests.rigs.cli_fake import INFO, run


def apply(fake, folder, *words, code=0, there=None):
    listed = {name: {"info": {**INFO, "name": name, "config": config}} for name, config in (there or {}).items()}
    fake.answers["GET /connectors"] = (200, listed)
    return run(fake, "connectors", "apply", str(folder), *words, code=code)


def test_error_messages_keep_their_lines(fake, tmp_path):
    file = tmp_path / "c.json"
    file.write_text('{"name": "c", "connector.class": "X", "a": "1"}')
    fake.answers["GET /connectors"] = (200, {})
    value = {"value": {"name": "a", "value": "1", "errors": ["one\ntwo"]}, "definition": {"type": "STRING"}}
    fake.answers["PUT /connector-plugins/X/config/validate"] = (200, {"configs": [value], "error_count": 1})
    assert "heeler: c: a: one\ntwo\n" in run(fake, "connectors", "apply", str(file), "--dry-run", code=1).stderr
    assert "one two" in run(fake, "validate", str(file), code=1).stdout


def test_apply_continues_after_an_error_and_reports_it(fake, tmp_path):
    for name in "abc":
        (tmp_path / f"{name}.json").write_text(json.dumps({"name": name, "config": {"connector.class": "X"}}))
    fake.answers["POST /connectors"] = [(201, INFO), (400, {"message": "bad"}), (201, INFO)]
    fake.answers["DELETE /connectors/z"] = (204, None)
    there = {"z": {"name": "z", "connector.class": "X"}}
    done = apply(fake, tmp_path, "--prune", "--yes", "-o", "json", code=5, there=there)
    said = json.loads(done.stdout)["changes"]
    assert [(c["name"], c["action"], "error" in c) for c in said] == [
        ("a", "create", False), ("b", "create", True), ("c", "create", False), ("z", "delete", False)]
    assert "b: HTTP 400: bad" in done.stderr


def test_a_connector_is_created_in_the_state_that_its_file_names(fake, tmp_path):
    wanted = {"name": "c", "config": {"connector.class": "X"}, "initial_state": "STOPPED"}
    file = tmp_path / "c.json"
    file.write_text(json.dumps(wanted))
    fake.answers["POST /connectors"] = (201, INFO)
    apply(fake, file, "--yes")
    config = {**wanted["config"], "name": "c"}
    assert [body for request, body in fake.asked if request == "POST /connectors"] == [{**wanted, "config": config}]


def test_secrets_are_masked_by_name_and_by_the_plugins_declaration(fake, tmp_path):
    config = {"connector.class": "X", "pin": "918273645", "db.password": "swordfish", "from": "${file:/p:pw}",
              "url": "jdbc:x://u:swordfish@9@h", "jdbc": "jdbc:x://h?password=swordfish9", "copy": "is swordfish here"}
    fake.answers["GET /connector-plugins/X/config"] = (200, [{"name": "pin", "type": "PASSWORD"}])
    fake.answers["PUT /connector-plugins/X/config/validate"] = (200, {"configs": []})
    (tmp_path / "c.json").write_text(json.dumps({"name": "c", "config": config}))
    there = {"c": {**config, "name": "c", "pin": "1111111111", "db.password": "haddock99", "from": "${file:/p:old}"}}
    done = apply(fake, tmp_path, "--dry-run", there=there).output
    assert "pin=[hidden] (changed)" in done
    assert "from=${file:/p:old}" in done
    assert "from=${file:/p:pw}" in done
    for secret in ("918273645", "1111111111", "swordfish", "haddock"):
        assert secret not in done
    created = apply(fake, tmp_path, "--dry-run", there={}).output
    assert "copy=is [hidden] here" in created
    assert "swordfish" not in created


def test_secrets_are_masked_in_the_workers_errors(fake, tmp_path):
    config = {"connector.class": "X", "pin": "918273645", "db.password": "swordfish", "url": "jdbc:x://u:herring77@h"}
    words = "no login at jdbc:x://u:herring77@h with swordfish and 918273645"
    fake.answers["GET /connector-plugins/X/config"] = (200, [{"name": "pin", "type": "PASSWORD"}])
    fake.answers["PUT /connector-plugins/X/config/validate"] = (500, {"message": words})
    fake.answers["POST /connectors"] = (400, {"message": words})
    file = tmp_path / "c.json"
    file.write_text(json.dumps({"name": "c", "config": config}))
    masked = "c: HTTP 400: no login at jdbc:x://u:[hidden]@h with [hidden] and [hidden]\n"
    assert masked in apply(fake, file, "--yes", code=5).stderr
    assert masked.replace("400", "500") in apply(fake, file, "--dry-run", code=1).stderr
    for words, code in ((("connectors", "create", "-o", "json"), 5), (("validate",), 7)):
        process_secrets.cache_clear()
        said = run(fake, *words, str(file), code=code).output
        assert "no login at jdbc:x://u:[hidden]@h with [hidden] and 918273645" in said, "it has not asked for the keys"


def test_a_connector_with_a_null_in_its_config_does_not_stop_the_others(fake, tmp_path):
    """Older workers of Java accept one for keys that the plugin does not define."""
    (tmp_path / "c.json").write_text('{"name": "c", "connector.class": "X"}')
    there = {name: {"name": name, "connector.class": "X", "unset": None} for name in "bc"}
    assert apply(fake, tmp_path, there=there).stdout == "1 unchanged.\n"


def test_no_change_before_all_files_are_read(fake, tmp_path):
    (tmp_path / "a.json").write_text('{"name": "a", "config": {"connector.class": "X"}}')
    (tmp_path / "b.yaml").write_text("connector.class: [")
    (tmp_path / "c.yml").write_text("name: a\nconnector.class: X\n")
    done = apply(fake, tmp_path, "--yes", code=2)
    assert "b.yaml: it is not valid YAML: expected the node content" in done.stderr
    assert "connector a is also defined in" in done.stderr
    assert fake.asked == []
