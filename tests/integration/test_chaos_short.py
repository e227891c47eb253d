"""Fifteen seconds of `make chaos`: no record is lost, duplicated or out of order, regardless of what is killed."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import pytest

from tests.chaos.chaos import Chaos

pytestmark = [pytest.mark.integration, pytest.mark.nightly, pytest.mark.timeout(600)]


def test_fifteen_seconds_of_chaos_lose_no_records():
    folder = Path(tempfile.mkdtemp(prefix="heeler-chaos-"))
    reported: list[str] = []
    figures = Chaos(folder, 7, reported.append, pause=(0.2, 1.6), suspend=(0.5, 5.0)).run(15)
    assert figures["records"] > 0
    assert figures["events"], reported
    shutil.rmtree(folder)
