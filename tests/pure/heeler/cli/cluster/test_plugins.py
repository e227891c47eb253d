"""`heeler plugins`."""

from __future__ import annotations

import pytest

from tests.rigs.cli_fake import run


def test_plugins_list_shows_the_runtime_in_use_where_there_are_two(fake):
    plain = {"class": "a.Plain", "type": "source", "version": "1"}
    both = {"class": "b.Both", "type": "sink", "version": "4.3.1", "runtime": "java",
            "passed_over": [{"runtime": "heeler", "location": "classpath"}]}
    fake.answers["GET /connector-plugins"] = (200, [plain, both])
    assert [line.split() for line in run(fake, "plugins", "list").stdout.splitlines()] == [
        ["TYPE", "CLASS", "VERSION", "RUNTIME"], ["sink", "b.Both", "4.3.1", "java"], ["source", "a.Plain", "1"]]
    fake.answers["GET /connector-plugins"] = (200, [plain])
    assert "RUNTIME" not in run(fake, "plugins", "list").stdout


@pytest.mark.parametrize(("words", "asked"), [
    (("plugins", "list"), ("GET /connector-plugins?connectorsOnly=true", None)),
    (("plugins", "list", "--all"), ("GET /connector-plugins?connectorsOnly=false", None)),
])
def test_options_reach_the_worker(fake, words, asked):
    fake.answers["GET /connector-plugins"] = (200, [])
    run(fake, *words)
    assert fake.asked == [asked]
