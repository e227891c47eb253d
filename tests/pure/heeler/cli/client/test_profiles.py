"""Profiles of clusters: address, user, and files that are wrong."""

from __future__ import annotations

import base64

import pytest
from click.testing import CliRunner

from heeler.cli.client.profiles import parse_profiles, profile_of
from heeler.cli.main import main
from heeler.errors import SetupError
from tests.rigs.cli_fake import STATUS


def test_profiles_contain_address_and_user(fake, tmp_path):
    file = tmp_path / "profiles.yaml"
    (tmp_path / "pw").write_text("sesame\n")
    file.write_text(f"default: here\nprofiles:\n  here:\n    url: [127.0.0.1:1, '{fake.url}']\n    user: ann\n"
                    f"    password-file: {tmp_path / 'pw'}\n  gone: {{url: 'http://127.0.0.1:1'}}\n")
    fake.answers["GET /connectors/c/status"] = (200, {**STATUS, "tasks": []})

    def asked(*words, **environ):
        runner = CliRunner(env={"HEELER_PROFILES": str(file), "HEELER_URL": "", "HEELER_PROFILE": "", **environ})
        return runner.invoke(main, ["connectors", "status", "c", *words])

    assert asked().exit_code == 0
    assert fake.headers[-1]["Authorization"] == "Basic YW5uOnNlc2FtZQ=="
    assert asked(HEELER_PROFILE="gone").exit_code == 3
    assert asked("--profile", "gone", HEELER_URL=fake.url).exit_code == 3
    assert asked(HEELER_PROFILE="gone", HEELER_URL=fake.url).exit_code == 0
    assert asked("--profile", "none").exit_code == 2
    gone = asked(HEELER_PROFILES=str(tmp_path / "none"))
    assert (gone.exit_code, "none, which HEELER_PROFILES names, does not exist" in gone.stderr) == (2, True)
    assert asked("--url", fake.url.replace("//", "//bob:x@")).exit_code == 0
    assert fake.headers[-1]["Authorization"] == "Basic Ym9iOng="
    assert "x@" not in asked("--url", "http://bob:x@127.0.0.1:1").output
    for wrong in ("profiles: []", "profiles: {a: {uri: x}}\ndefault: a", "a: [", "profiles: {}\ndefault: b",
                  "profiles: {a: {url: 'ftp://x'}}\ndefault: a",
                  "profiles: {a: {ca: /none, url: 'https://x'}}\ndefault: a"):
        file.write_text(wrong)
        assert asked().exit_code == 2, wrong


def test_user_and_password_in_a_url_are_percent_encoded():
    profile = profile_of(["https://ann%40here:p%40s%2Fs%2C100%@connect:8083"], None, {})
    assert profile.urls == ("https://connect:8083",)
    assert base64.b64decode(profile.headers()["Authorization"].removeprefix("Basic ")) == b"ann@here:p@s/s,100%"


@pytest.mark.parametrize("url", [
    "http://ann:sesame@h:99999", "http://ann:ses/ame@h", "ann:sesame@h?x", "ftp://ann:sesame@h"])
def test_the_error_for_an_invalid_url_does_not_show_its_password(url):
    with pytest.raises(SetupError, match=r"HEELER_URL: (ht|f)tp://h.* is not the address of a worker") as caught:
        profile_of((), None, {"HEELER_URL": url})
    assert "ses" not in str(caught.value)


def test_the_home_folder_of_an_unknown_user():
    profile = parse_profiles("profiles: {a: {user: ann, password-file: ~nobody-has-this-name/x}}", "a", "profiles.yaml")
    with pytest.raises(SetupError, match="password file ~nobody-has-this-name/x cannot be read"):
        profile.headers()


@pytest.mark.parametrize(("word", "insecure"), [("yes", True), ("True", True), ("off", False), ("no", False)])
def test_insecure_is_one_of_yamls_words(word, insecure):
    text = f"profiles: {{a: {{url: 'https://h', insecure: {word}}}}}"
    assert parse_profiles(text, "a", "profiles.yaml").insecure is insecure
    with pytest.raises(SetupError, match="insecure must be true or false, not 1"):
        parse_profiles(text.replace(word, "1"), "a", "profiles.yaml")
