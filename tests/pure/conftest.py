"""Fixtures of several pure tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from actors.ticker import Ticker


@pytest.fixture
def ticker() -> Iterator[Ticker]:
    ticker = Ticker()
    ticker.start()
    yield ticker
    ticker.stop()
