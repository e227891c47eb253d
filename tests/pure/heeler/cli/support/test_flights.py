"""The demo's check of its results, and its message if the worker refuses a request."""

from __future__ import annotations

import re
from io import StringIO

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from rich.console import Console

from heeler.cli.client.rest_client import RestError
from heeler.cli.support.flights import FOLDER, Scene, asking, report, run_demo
from heeler.cli.support.worker_process import WorkerProcess
from heeler.errors import SetupError

CSV = "year,carrier,arr_delay\n2013,UA,11\n2013,UA,NA\n2013,AA,-3\n"
ROWS = {"year": [2013] * 3, "carrier": ["UA", "UA", "AA"], "arr_delay": [11, None, -3]}


@pytest.mark.parametrize(("records", "parquet", "code"), [
    (3, {}, 0),
    (4, {}, 1),
    (3, {"year": [2013] * 2, "carrier": ["UA", "AA"], "arr_delay": [11, -3]}, 1),
    (3, {"arr_delay": [11, None, -4]}, 1),
], ids=["all agree", "topic", "Parquet", "query"])  # fmt: skip
def test_the_exit_code_shows_whether_all_counts_agree(tmp_path, records, parquet, code):
    scene = Scene(tmp_path, tmp_path / "flights.csv", tmp_path / "parquet", "host:9092", "run")
    scene.csv.write_text(CSV)
    scene.parquet.mkdir()
    pq.write_table(pa.table({**ROWS, **parquet}), scene.parquet / "part.parquet")
    said = StringIO()
    assert report(Console(file=said, width=200), scene, 3, records, 2.0, 1.0) == code
    assert ("Something differs." if code else "Everything agrees.") in said.getvalue()
    for where in (scene.csv, scene.parquet, "flights-run on host:9092"):
        assert str(where) in said.getvalue()


@pytest.mark.parametrize("servers", [
    "127.0.0.1:1", "[::1]:1,localhost:99999999999", "PLAINTEXT://127.0.0.1:1", "kafka", f"{'x' * 300}:9092", "",
    "localhost:" + "9" * 5000,
])
def test_brokers_that_do_not_respond(tmp_path, monkeypatch, servers):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("heeler.cli.support.flights.KAFKA_WAIT_S", 0.0)
    with pytest.raises(SetupError, match=re.escape(f"No Kafka broker responds at {servers}. Check --bootstrap")):
        run_demo(servers, keep=False)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_created(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / FOLDER).write_text("")
    with pytest.raises(SetupError, match=rf"^The demo's folder /.*/{FOLDER} cannot be created: File exists\."):
        run_demo(None, keep=False)
    assert (tmp_path / FOLDER).is_file()


def test_a_folder_with_other_files_is_left_alone(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / FOLDER).mkdir()
    (tmp_path / FOLDER / "thesis.tex").write_text("")
    with pytest.raises(SetupError, match=r"contains thesis\.tex, which does not belong to the demo"):
        run_demo(None, keep=False)
    assert (tmp_path / FOLDER / "thesis.tex").exists()


def test_a_refusal_is_reported_with_the_workers_log(tmp_path):
    worker = WorkerProcess(tmp_path, {})
    worker.log.write_text("the log")
    with pytest.raises(SetupError, match="refused a request: HTTP 400: no such class\nIts log ends with:\nthe log"), \
            asking(worker):
        raise RestError(400, "no such class")
    with pytest.raises(SetupError, match="Connection refused"), asking(worker):
        worker.rest.put_config("name", {})
