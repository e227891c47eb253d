"""Keys that are secret because a plugin declares them as passwords."""

from __future__ import annotations

import json

import pytest

from tests.rigs.cli_fake import STATUS, run

PIN = [{"name": "pin", "type": "PASSWORD"}, {"name": "n", "type": "INT"}]
CONFIG = {
    "name": "c", "connector.class": "X", "pin": "swordfish-1", "n": "1", "transforms": "mask, other",
    "transforms.mask.type": "T", "transforms.mask.pin": "swordfish-2", "transforms.other.type": "Unused",
    "predicates": "p", "predicates.p.type": "P", "predicates.p.pin": "swordfish-3",
    "value.converter": "V", "value.converter.pin": "swordfish-4", "key.converter": "K", "header.converter.pin": "shown",
}


@pytest.fixture
def shown(fake):
    task = {"id": {"connector": "c", "task": 0}, "config": {**CONFIG, "task.pin": "2"}}
    fake.answers |= {
        "GET /connectors/c": (200, {"name": "c", "type": "sink", "tasks": [], "config": CONFIG}),
        "GET /connectors/c/status": (200, STATUS), "GET /connectors/c/tasks": (200, [task]),
        "GET /connectors/c/config": (200, CONFIG), "GET /connectors": (200, {"c": {"info": {"config": CONFIG}}}),
        "POST /connectors": (201, {"name": "c", "config": CONFIG}),
        **{f"GET /connector-plugins/{plugin}/config": (200, PIN) for plugin in "XTPV"},
    }
    return fake


def test_passwords_of_all_plugins_of_a_connector_are_hidden(shown):
    done = run(shown, "connectors", "show", "c")
    assert "swordfish" not in done.output
    assert done.stdout.count("[hidden]") == 4
    asked = [request for request, _ in shown.asked if "plugins" in request]
    assert asked == [f"GET /connector-plugins/{plugin}/config" for plugin in "XVTP"], "those with keys, once each"


@pytest.mark.parametrize("status", [404, 400])
def test_an_unknown_plugin_has_no_keys(shown, status):
    shown.answers["GET /connector-plugins/T/config"] = (status, {"error_code": status, "message": "Unknown plugin T."})
    assert "swordfish-2" in run(shown, "connectors", "show", "c").stdout


@pytest.mark.parametrize("words", [("show", "c"), ("tasks", "c"), ("list", "-o", "json"), ("create", "-o", "json"),
                                   ("apply", "--dry-run")])
@pytest.mark.parametrize(("status", "code"), [(403, 5), (500, 7), (503, 7)])
def test_nothing_is_shown_if_the_keys_are_unknown(shown, tmp_path, words, status, code):
    """As with a proxy that passes on only some paths."""
    for plugin in "XTPV":
        shown.answers[f"GET /connector-plugins/{plugin}/config"] = (status, {"message": "no"})
    file = tmp_path / "c.json"
    file.write_text(json.dumps({**CONFIG, "n": "2"}))
    shown.answers["GET /connectors"] = (200, {"c": {"info": {"config": CONFIG}, "status": STATUS}})
    files = [str(file)] if words[0] in ("create", "apply") else []
    done = run(shown, "connectors", *words, *files, code=code)
    assert "swordfish" not in done.output
    assert f"HTTP {status}: no (while looking up which keys of X are passwords" in done.output
    assert not [request for request, _ in shown.asked if request.startswith("POST")]
