"""`heeler top`: rates, lag, and a table that fits the terminal, until Ctrl-C."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from heeler.cli.cluster.top import COLUMNS, SPARE
from heeler.cli.console.output import fitting
from tests.rigs.cli_fake import STALL, STALLS, STATUS, metrics, run
from tests.rigs.fake_connect import fake_connect
from tests.rigs.terminal import follows_changes_until_ctrl_c


def test_top_shows_rates_and_lag_from_metrics(fake):
    fake.answers |= {
        "GET /connectors": (200, {"c": {"status": STATUS}, "b": {"status": {**STATUS, "name": "b", "tasks": []}}}),
        "GET /metrics": [(200, metrics(1000, 7)), (200, metrics(5000, 5))]}
    first, second = (run(fake, "top", "--times", "2", "--interval", "0.2").stdout.split("CONNECTOR")[1:])
    assert [line.split()[0] for line in second.splitlines()[1:]] == ["c", "c", "b"]  # what has failed is first
    words = first.splitlines()[2].split()
    assert words == ["c", "task", "0", "FAILED", "-", "8", "3", "w:1", "Boom"]
    words = second.splitlines()[2].split()
    assert words[5:7] == ["6", "3"]
    assert int(words[4].replace(",", "")) > 0


def test_the_figures_of_top_are_numbers_for_programs(fake):
    fake.answers |= {"GET /connectors": (200, {"c": {"status": STATUS}}),
                     "GET /metrics": [(200, metrics(1000, 7000)), (200, metrics(5000, 5000))]}
    out = run(fake, "top", "--times", "2", "--interval", "0.2", "-o", "yaml").stdout
    _, before, whole, task = yaml.safe_load(out)  # the lists of both refreshes
    assert (whole["connector"], whole["type"], whole["task"], task["task"], task["state"]) == (
        "c", "sink", None, 0, "FAILED")
    assert (before["records_per_second"], before["lag"]) == (None, 7001)
    assert task["records_per_second"] > 0
    assert (task["lag"], task["errors"], task["worker"], task["problem"]) == (5001, 3, "w:1", "Boom")


def test_top_shows_what_has_stalled(fake):
    well = {**STATUS, "tasks": [{"id": n, "state": "RUNNING", "worker_id": "w:1"} for n in (0, 1)]}
    stalls = {**STALLS, "name": "c"}
    fake.answers |= {"GET /connectors": (200, {"b": {"status": {**well, "name": "b"}}, "c": {"status": stalls}})}
    lines = run(fake, "top", "--times", "1").stdout.splitlines()[1:]
    assert [line.split()[0] for line in lines] == [*"cccbbb"]
    assert [line.split()[1:3] for line in lines if STALL in line] == [["task", "1"]]


def test_top_without_metrics_uses_offsets(fake):
    fake.answers |= {
        "GET /connectors": (200, {"c": {"status": STATUS}}),
        "GET /connectors/c/offsets": [(200, {"offsets": [{"partition": {}, "offset": {"kafka_offset": n}}, 5]})
                                      for n in (10, 5000)]}
    second = run(fake, "top", "--times", "2", "--interval", "0.2").stdout.split("CONNECTOR")[2]
    assert int(second.splitlines()[2].split()[4].replace(",", "")) > 0
    assert run(fake, "top", "--times", "1", url="http://127.0.0.1:1", code=3).stderr


@pytest.mark.parametrize("text", ["1e308", "1e19", "-1", "NaN", "+Inf"])
def test_top_leaves_out_numbers_that_no_worker_counts(fake, text):
    """Their sums might no longer be numbers."""
    lags = "".join(f'heeler_sink_lag_records{{connector="c",task="0",partition="{n}"}} {text}\n' for n in range(2))
    fake.answers |= {"GET /connectors": (200, {"c": {"status": STATUS}}), "GET /metrics": (200, lags.encode())}
    assert run(fake, "top", "--times", "1").stdout.splitlines()[2].split()[5] == "-"


def test_top_leaves_out_offsets_that_kafka_does_not_have(fake):
    offsets = {"offsets": [{"partition": {}, "offset": {"kafka_offset": 10**400}}]}
    fake.answers |= {"GET /connectors": (200, {"c": {"status": STATUS}}), "GET /connectors/c/offsets": (200, offsets)}
    assert run(fake, "top", "--times", "1").stdout.splitlines()[2].split()[4] == "-"


def test_credentials_do_not_go_to_workers_that_only_a_status_names(fake):
    with fake_connect({"GET /metrics": (200, metrics(1, 1))}) as other:
        status = {**STATUS, "connector": {"state": "RUNNING", "worker_id": other.url.partition("//")[2]}}
        fake.answers["GET /connectors"] = (200, {"c": {"status": status}})
        run(fake, "top", "--times", "1", url=fake.url.replace("//", "//ann:sesame@"))
        assert "Authorization" in fake.headers[-1]
        assert [request for request, _ in other.asked] == ["GET /metrics?names=heeler"]
        assert "Authorization" not in other.headers[-1]


def test_top_is_a_full_screen_until_ctrl_c(fake, on_a_terminal):
    fake.answers |= {"GET /connectors": (200, {"c": {"status": STATUS}}), "GET /metrics": (200, metrics(1000, 7))}
    shown = on_a_terminal("top", "--interval", "0.2")
    shown.until("\x1b[?1049h", "RECORDS/S", "task 0", "FAILED", "Boom")
    follows_changes_until_ctrl_c(fake, shown)
    assert "\x1b[?1049l" in shown.output, "the screen is what it was before"
    data = on_a_terminal("top", "--interval", "0.2", "-o", "json")
    data.until('"records_per_second": ')
    data.interrupt()
    assert data.end() == 130
    assert "\x1b[?1049" not in data.output


@pytest.mark.parametrize(("words", "restored"), [
    (("top", "--interval", "0.2"), "\x1b[?1049l"),
    pytest.param(("connectors", "status", "--watch"), "\x1b[?25h", marks=pytest.mark.nightly),
])
def test_signals_restore_the_terminal(fake, on_a_terminal, words, restored):
    fake.answers |= {"GET /connectors": (200, {"c": {"status": STATUS}}), "GET /metrics": (200, metrics(1000, 7))}
    shown = on_a_terminal(*words)
    shown.until("task 0", "Boom")
    shown.process.terminate()
    assert shown.end() == 130
    assert restored in shown.output


@pytest.mark.parametrize("words", [
    pytest.param(("top", "--interval", "0.2"), marks=pytest.mark.nightly), ("connectors", "status", "--watch")])
def test_terminals_that_cannot_move_their_cursor_get_lines(fake, on_a_terminal, words):
    """As in an editor's shell; a screen would show nothing there."""
    fake.answers |= {"GET /connectors": (200, {"c": {"status": STATUS}}), "GET /metrics": (200, metrics(1000, 7))}
    shown = on_a_terminal(*words, kind="dumb")
    shown.until("task 0", "Boom")
    shown.interrupt()
    assert shown.end() == 130


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
