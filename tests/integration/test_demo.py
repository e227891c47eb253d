"""`heeler demo` as a user runs it."""

from __future__ import annotations

import os
import subprocess
import sys

import pyarrow.dataset
import pytest

pytestmark = [pytest.mark.integration, pytest.mark.timeout(400)]

FLIGHTS = 336_776


def test_demo_agrees_with_itself(broker, tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "heeler", "demo", "--bootstrap-servers", broker.bootstrap_servers],
        cwd=tmp_path, capture_output=True, text=True, timeout=380, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Everything agrees." in done.stdout
    assert f"{FLIGHTS:,}" in done.stdout
    data = pyarrow.dataset.dataset(tmp_path / "heeler-demo" / "parquet", format="parquet", exclude_invalid_files=True)
    assert data.count_rows() == FLIGHTS
    assert {"year", "carrier", "arr_delay"} <= set(data.schema.names)


def test_demo_without_kafka(tmp_path):
    """A clear message, exit code 2, and nothing left."""
    done = subprocess.run(
        [sys.executable, "-m", "heeler", "demo", "--bootstrap-servers", "127.0.0.1:1"],
        cwd=tmp_path, env={**os.environ, "CONNECT_DEFAULT_API_TIMEOUT_MS": "2000"}, capture_output=True, text=True,
        timeout=120, check=False)
    assert done.returncode == 2
    assert "127.0.0.1:1" in done.stderr
    assert "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == []
