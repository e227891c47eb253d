"""`heeler loggers`."""

from __future__ import annotations

import pytest

from tests.rigs.cli_fake import run


@pytest.mark.parametrize(("words", "asked"), [
    (("loggers", "set", "a.b", "debug"), ("PUT /admin/loggers/a.b?scope=worker", {"level": "DEBUG"})),
    (("loggers", "set", "a.b", "debug", "--cluster"), ("PUT /admin/loggers/a.b?scope=cluster", {"level": "DEBUG"})),
])
def test_options_reach_the_worker(fake, words, asked):
    fake.answers["PUT /admin/loggers/a.b"] = (200, [])
    run(fake, *words)
    assert fake.asked == [asked]
