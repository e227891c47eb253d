"""A schema registry that the tests of this folder share."""

from __future__ import annotations

import pytest

from tests.rigs.schema_registry import running_registry


@pytest.fixture(scope="package")
def registry(tmp_path_factory):
    """Ends after the last test of this folder; tests/rigs/schedule.py gives all of them to one process."""
    with running_registry(tmp_path_factory.mktemp("registry")) as running:
        yield running
