"""`heeler connectors create`."""

from __future__ import annotations

import json

from tests.rigs.cli_fake import INFO, run


def test_create_prints_what_was_created_without_secrets(fake, tmp_path):
    file = tmp_path / "c.json"
    file.write_text(json.dumps({"name": "c", "config": {**INFO["config"], "db.password": "swordfish"}}))
    created = {**INFO, "config": {**INFO["config"], "db.password": "swordfish"}}
    fake.answers["POST /connectors"] = (201, created)
    done = run(fake, "connectors", "create", str(file), "-o", "json")
    assert json.loads(done.stdout) == {"changes": [{"name": "c", "action": "create", "response": {
        **INFO, "config": {**INFO["config"], "db.password": "[hidden]"}}}]}
    assert run(fake, "connectors", "create", str(file)).stdout == "c: created\n"


def test_a_connector_is_created_in_the_state_that_its_file_names(fake, tmp_path):
    wanted = {"name": "c", "config": {"connector.class": "X"}, "initial_state": "STOPPED"}
    file = tmp_path / "c.json"
    file.write_text(json.dumps(wanted))
    fake.answers["POST /connectors"] = (201, INFO)
    run(fake, "connectors", "create", str(file))
    config = {**wanted["config"], "name": "c"}
    assert [body for request, body in fake.asked if request == "POST /connectors"] == [{**wanted, "config": config}]
