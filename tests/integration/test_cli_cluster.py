"""The `heeler` command and a heeler worker; tests/interop/test_cli_java.py has the same with a Java worker."""

from __future__ import annotations

import pytest

from tests.rigs.cli_tour import tour

pytestmark = pytest.mark.integration


def test_the_command_line(rig, topic_name):
    rig.created += [f"{topic_name}-in", f"{topic_name}-out"]
    tour(rig.rest.url, rig.kafka, rig.folder, topic_name)
