"""Profiles of clusters: address, user, and files that are wrong."""

from __future__ import annotations

from click.testing import CliRunner

from heeler.cli.main import main
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
    assert asked("--url", fake.url.replace("//", "//bob:x@")).exit_code == 0
    assert fake.headers[-1]["Authorization"] == "Basic Ym9iOng="
    assert "x@" not in asked("--url", "http://bob:x@127.0.0.1:1").output
    for wrong in ("profiles: []", "profiles: {a: {uri: x}}\ndefault: a", "a: [", "profiles: {}\ndefault: b",
                  "profiles: {a: {url: 'ftp://x'}}\ndefault: a",
                  "profiles: {a: {ca: /none, url: 'https://x'}}\ndefault: a"):
        file.write_text(wrong)
        assert asked().exit_code == 2, wrong
