"""The output of commands: no secrets in any format, and tables that fit the terminal."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from heeler.cli.cluster.top import COLUMNS, SPARE
from heeler.cli.output import fitting
from tests.pure.heeler.cli.cluster.test_cluster_commands import INFO, STATUS, fake, run

__all__ = ["fake"]
CONFIG = {"name": "c", "connector.class": "X", "sasl.jaas.config": 'x password="hunter2hunter2";',
          "pin": "swordfish", "a": "1"}


@pytest.fixture
def listed(fake):
    fake.answers["GET /connectors"] = [(200, {"c": {"status": STATUS, "info": {**INFO, "config": CONFIG}}}),
                                       (200, ["c"])] * 2
    fake.answers["GET /connector-plugins/X/config"] = (200, [{"name": "pin", "type": "PASSWORD"}])
    return fake


@pytest.mark.parametrize(("form", "parse"), [("json", json.loads), ("yaml", yaml.safe_load)])
def test_machine_readable_lists_have_no_secrets(listed, form, parse):
    shown = run(listed, "connectors", "list", "-o", form).stdout
    assert parse(shown)["c"]["info"]["config"] == {**CONFIG, "sasl.jaas.config": "[hidden]", "pin": "[hidden]"}
    shown = run(listed, "connectors", "list", "-o", form, "--show-secrets").stdout
    assert parse(shown)["c"]["info"]["config"] == CONFIG


def test_plugins_list_shows_the_runtime_in_use_where_there_are_two(fake):
    plain = {"class": "a.Plain", "type": "source", "version": "1"}
    both = {"class": "b.Both", "type": "sink", "version": "4.3.1", "runtime": "java",
            "passed_over": [{"runtime": "heeler", "location": "classpath"}]}
    fake.answers["GET /connector-plugins"] = (200, [plain, both])
    assert [line.split() for line in run(fake, "plugins", "list").stdout.splitlines()] == [
        ["TYPE", "CLASS", "VERSION", "RUNTIME"], ["sink", "b.Both", "4.3.1", "java"], ["source", "a.Plain", "1"]]
    fake.answers["GET /connector-plugins"] = (200, [plain])
    assert "RUNTIME" not in run(fake, "plugins", "list").stdout


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


def screen(rows, width, height):
    from rich.console import Console

    out = Console(width=width, height=height, highlight=False)
    with out.capture() as captured:
        out.print(fitting(COLUMNS, rows, SPARE, SimpleNamespace(size=(width, height))))
    return [line.rstrip() for line in captured.get().splitlines()]


ROWS = [(f"connector-{n}", part, "RUNNING", "1,000", "50", "-", "10.0.0.1:8083", "Boom! " * 9) for n in range(9)
        for part in ("source", "task 0")]


def test_a_screen_drops_rows_and_columns_that_do_not_fit():
    wide = screen(ROWS, 200, 50)
    assert wide[0].split() == " ".join(COLUMNS).split()
    assert wide[1].split()[:7] == ["connector-0", "source", "RUNNING", "1,000", "50", "-", "10.0.0.1:8083"]
    assert len(wide) == 19
    narrow = screen(ROWS, 62, 6)
    assert narrow[0].split() == ["CONNECTOR", "PART", "STATE", "RECORDS/S", "LAG", "PROBLEM"]
    assert narrow[1].endswith("…")
    assert narrow[1].split()[:3] == ["connector-0", "source", "RUNNING"]
    assert narrow[-1] == "… and 14 more"
    assert len(narrow) == 6
    assert screen(ROWS, 40, 24)[1] == "connector-0  source  RUNNING"
    assert screen([], 40, 24)[0].split()[0] == "CONNECTOR"


@given(st.integers(1, 130), st.integers(1, 30), st.lists(st.tuples(*[st.text(max_size=30)] * 8), max_size=20))
def test_a_screen_is_never_larger_than_the_terminal(width, height, rows):
    from rich.cells import cell_len

    lines = screen(rows, width, height)
    assert len(lines) <= max(height, 2) or width < 20, lines
    assert max(map(cell_len, lines)) <= width
