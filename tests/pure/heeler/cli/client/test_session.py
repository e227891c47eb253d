"""What all commands share: options, several workers, a rebalance, completion of names."""

from __future__ import annotations

import json
import re

import pytest
from click.testing import CliRunner

from heeler.cli.main import main
from tests.rigs.cli_fake import INFO, run
from tests.rigs.fake_connect import fake_connect


def test_requests_wait_for_the_end_of_a_rebalance(fake):
    passing = (409, {"error_code": 409, "message": "a rebalance"})
    fake.answers["PUT /connectors/c/pause"] = [passing, passing, (202, None)]
    done = CliRunner().invoke(main, ["connectors", "pause", "c", "--url", fake.url])
    assert (done.exit_code, done.output) == (0, "c: will pause\n")
    assert len(fake.asked) == 3


def test_workers_are_tried_in_turn_but_no_change_twice(fake):
    with fake_connect({"GET /connectors/c": (0, b""), "PUT /connectors/c/pause": (0, b"")}) as dying:
        fake.answers |= {"GET /connectors/c": (200, INFO), "PUT /connectors/c/pause": (202, None)}
        both = f"http://127.0.0.1:1,{dying.url},{fake.url}"
        assert "connector.class" in run(fake, "connectors", "show", "c", url=both).stdout
        asked = len(fake.asked)
        assert "may have carried it out" in run(fake, "connectors", "pause", "c", url=both, code=3).stderr
        assert len(fake.asked) == asked


def test_names_are_quoted_in_paths(fake):
    fake.answers["DELETE /connectors/a%2Fb%3F%20%23%0D%0A"] = (204, None)
    run(fake, "connectors", "delete", "a/b? #\r\n", "-y")


def test_what_takes_longer_than_a_second_is_shown(fake, on_a_terminal):
    fake.answers["GET /connectors/c/topics"] = (200, {"c": {"topics": ["t"]}})
    fake.responds.clear()
    shown = on_a_terminal("connectors", "topics", "c")
    shown.until("Waiting for GET connectors")
    fake.responds.set()
    assert shown.end() == 0
    assert "\x1b[2K" in shown.output, "its line is removed"
    assert re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown.output).split()[-2:] == ["TOPIC", "t"]


def test_options_may_stand_before_the_command_and_between_its_words(fake, tmp_path):
    fake.answers["GET /connectors/c/topics"] = (200, {"c": {"topics": ["t"]}})
    file = tmp_path / "profiles.yaml"
    file.write_text(f"profiles: {{there: {{url: '{fake.url}'}}}}")
    runner = CliRunner(env={"HEELER_PROFILES": str(file), "HEELER_URL": "", "HEELER_PROFILE": ""})
    nobody = "http://127.0.0.1:9"
    for words in (["--url", fake.url, "-o", "json", "connectors", "topics", "c"],
                  ["--url", nobody, "-o", "json", "connectors", "topics", "c", "--url", fake.url],
                  ["--url", nobody, "-o", "yaml", "connectors", "topics", "c", "--profile", "there", "-o", "json"],
                  ["--profile", "there", "connectors", "topics", "c", "-o", "json"],
                  ["connectors", "--url", fake.url, "-o", "json", "topics", "c"],
                  ["--url", nobody, "-o", "yaml", "connectors", "--url", fake.url, "--output", "json", "topics", "c"],
                  ["--url", nobody, "-o", "json", "connectors", "--profile", "there", "topics", "c"],
                  ["connectors", "--url", nobody, "-o", "json", "topics", "c", "--url", fake.url],
                  ["connectors", "--url", nobody, "-o", "yaml", "topics", "c", "--profile", "there", "-o", "json"],
                  ["--profile", "none", "connectors", "--profile", "there", "-o", "json", "topics", "c"]):
        done = runner.invoke(main, words)
        assert (done.exit_code, json.loads(done.stdout)) == (0, ["t"]), (words, done.output)
    assert "No worker responds" in runner.invoke(main, ["--url", nobody, "connectors", "topics", "c"]).output
    for words, reason in ((["--url", fake.url, "broker"], "broker has no option --url"),
                          (["--url", fake.url, "plugins", "install", "x"], "install has no option --url"),
                          (["plugins", "--url", fake.url, "install", "x"], "install has no option --url"),
                          (["loggers", "-o", "xml", "list"], "'xml' is not one of")):
        done = runner.invoke(main, words)
        assert (done.exit_code, reason in done.output) == (2, True), (words, done.output)


@pytest.mark.parametrize("group", [["offsets", "show", "c"], ["plugins", "list"], ["loggers", "list"]])
def test_every_group_accepts_the_options(fake, group):
    there = [*group[:1], "--url", fake.url, "--timeout", "0", "-o", "json", *group[1:]]
    assert "HTTP 404" in CliRunner().invoke(main, there).output


@pytest.mark.parametrize("words", [
    "heeler --url {} connectors show o", "heeler connectors --url {} show o", "heeler connectors show --url {} o",
    "heeler --url {nobody} connectors --url {} show o"])
def test_shells_complete_names_of_the_cluster_that_was_specified(fake, words):
    fake.answers["GET /connectors"] = (200, ["orders"])
    words = words.format(fake.url, nobody="http://127.0.0.1:9")
    env = {"_HEELER_COMPLETE": "bash_complete", "COMP_CWORD": str(len(words.split()) - 1), "COMP_WORDS": words,
           "HEELER_URL": "http://127.0.0.1:9"}
    assert "orders" in CliRunner(env=env).invoke(main, prog_name="heeler").output


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shells_complete_connector_names(fake, shell):
    assert "_HEELER_COMPLETE" in CliRunner().invoke(main, ["completion", shell]).stdout
    fake.answers["GET /connectors"] = (200, ["orders", "others", "evil\x1b[2J", 5])
    done = complete(fake, shell, "o")
    assert [name for name in ("orders", "others", "evil") if name in done] == ["orders", "others"]


def test_names_that_bash_would_not_read_as_a_word_are_not_completed(fake):
    """Bash inserts them as they are: Enter would run what is in them."""
    read_otherwise = ["o$(id)", "o`id`", "o;id", "o&", "o|id", "o>x", "o x", "o*", "o'", 'o"', "o\\", "o~", "o{a,b}"]
    fake.answers["GET /connectors"] = (200, ["o.r:d,e@r%s+=/-é", *read_otherwise])
    assert complete(fake, "bash", "o") == "plain,o.r:d,e@r%s+=/-é\n"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_names_that_would_be_options_are_not_completed(fake, shell):
    fake.answers["GET /connectors"] = (200, ["--url=http://evil", "orders"])
    done = complete(fake, shell, "")
    assert ("orders" in done, "evil" in done) == (True, False)


def complete(fake, shell, word):
    """What the command responds to the shell for `heeler connectors show WORD`."""
    env = {"_HEELER_COMPLETE": f"{shell}_complete", "COMP_CWORD": "3" if shell != "fish" else word,
           "COMP_WORDS": f"heeler connectors show {word}", "HEELER_URL": fake.url}
    return CliRunner(env=env).invoke(main, prog_name="heeler").output
