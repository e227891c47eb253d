"""Java Kafka Connect's answers about a plugin in a jar whose keys depend on each other (Choices.java in tests/rigs)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from heeler.cli.client.rest_client import RestClient, RestError

CHOICES: Final = "heeler.tests.Choices"
ANSWERS: Final = Path(__file__).with_name("answers.json")
OWN: Final = "Of the plugin: "
_WHOLE: Final = {"name": "n", "engine": "sql", "topic": "t"}
_LINK: Final = {"transforms": "a", "transforms.a.type": f"{CHOICES}$Link"}
_TEST: Final = {"predicates": "p", "predicates.p.type": f"{CHOICES}$Test"}
CASES: Final[dict[str, dict[str, str]]] = {
    "a choice": {**_WHOLE},
    "another choice": {**_WHOLE, "engine": "files"},
    "none": {"name": "n"},
    "not allowed": {**_WHOLE, "engine": "tape"},
    "recommenders that throw": {**_WHOLE, "engine": "broken"},
    "invalid values": {**_WHOLE, "port": "0", "few": "70000", "strict": "maybe", "codec": "no.such.Class",
                       "ratio": "x"},
    "valid values": {**_WHOLE, "port": "1", "few": "2", "strict": "FALSE", "columns": "a, b ,c", "ratio": "1e3",
                     "codec": "java.util.HashMap", "password": "hunter2", "pin": "1", "ungrouped": " x "},
    "an empty list": {**_WHOLE, "columns": ""},
    **{f"validate: {check}": {**_WHOLE, "check": check} for check in (
        "errors", "more", "replace", "twice", "connects", "fewer", "null", "config-exception", "exception")},
    "validate: errors and invalid values": {**_WHOLE, "check": "errors", "port": "0"},
    "no definition": {"name": "n", "connector.class": f"{CHOICES}$Undefined"},
    "no definition to be had": {"name": "n", "connector.class": f"{CHOICES}$Failing"},
    "a transformation": {**_WHOLE, **_LINK, "transforms.a.table": "orders"},
    "a transformation, another choice": {**_WHOLE, **_LINK, "transforms.a.table": "", "transforms.a.engine": "files"},
    "a transformation that throws": {**_WHOLE, **_LINK, "transforms.a.table": "t", "transforms.a.engine": "broken"},
    "a predicate": {**_WHOLE, **_TEST, "predicates.p.engine": "files"},
    "a converter": {**_WHOLE, "value.converter": f"{CHOICES}$Coder", "value.converter.table": "t"},
    "a converter, another choice": {**_WHOLE, "key.converter": f"{CHOICES}$Coder", "key.converter.engine": "files"},
}


def ask(rest: RestClient, case: str) -> dict[str, Any]:
    """A worker's answer; of Connect's own keys only values and errors (tests/golden/validate has the rest)."""
    wanted = {"connector.class": CHOICES, **CASES[case]}
    try:
        body = rest.call("PUT", f"/connector-plugins/{wanted['connector.class']}/config/validate", wanted)
    except RestError as error:
        return {"status": error.status, "message": error.message}
    return {**body, "configs": [_without_what_depends_on_the_worker(entry) for entry in body["configs"]]}


def _without_what_depends_on_the_worker(entry: dict[str, Any]) -> dict[str, Any]:
    definition, value = entry["definition"], entry["value"]
    if definition is None or definition["documentation"].startswith(OWN):
        return entry
    return {"connects": definition["name"], "value": value and value["value"], "errors": value and value["errors"]}


def keys(rest: RestClient) -> list[dict[str, Any]]:
    """The plugin's own keys, as a worker describes them."""
    found = rest.call("GET", f"/connector-plugins/{CHOICES}/config")
    return [key for key in found if key["documentation"].startswith(OWN)]


def answers() -> dict[str, dict[str, Any]]:
    """What Java's worker answered, by case."""
    return dict(json.loads(ANSWERS.read_text()))
