"""`heeler completion` in the shells themselves."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from heeler.cli.main import main

# What a shell does once Tab is pressed behind `heeler connectors re`.
BASH = """eval "$(cat script)"; COMP_WORDS=(heeler connectors re); COMP_CWORD=2; complete -p heeler >&2
_heeler_completion heeler; printf '%s\\n' "${COMPREPLY[@]}" """
ZSH = """eval "$(cat script)"; print -u2 $_comps[heeler]
compadd() { print -l -- $completions }; _describe() { print -l -- ${completions_with_descriptions%%:*} }
words=(heeler connectors re); CURRENT=3; _heeler_completion"""
FISH = "source script; complete -C 'heeler connectors re' | string split -f1 \\t"


@pytest.mark.integration  # each shell starts the command
@pytest.mark.parametrize(("shell", "words"), [
    ("bash", ("--norc", "-c", BASH)), ("zsh", ("-fc", ZSH)), ("fish", ("--no-config", "-c", FISH))])
def test_shells_complete_with_the_script(tmp_path, shell, words):
    """Includes a zsh that has not run compinit."""
    program = shutil.which(shell)
    assert program, f"{shell} is missing: apt-get install {shell}"
    (tmp_path / "script").write_text(CliRunner().invoke(main, ["completion", shell]).stdout)
    path = f"{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/bin"
    done = subprocess.run([program, *words], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False,
                          env={"PATH": path, "HOME": str(tmp_path), "TERM": "dumb"})
    assert sorted(done.stdout.split()) == ["replay", "restart", "resume"], done
    assert "command not found" not in done.stderr
