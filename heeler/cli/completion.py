"""`heeler completion`: scripts for shell completion of commands, options and connector names."""

from __future__ import annotations

import re
from typing import Any, Final

import click
from click.shell_completion import BashComplete, CompletionItem, add_completion_class, get_completion_class
from typing_extensions import override

_ZSH_HEAD: Final = "#compdef heeler"
_ZSH_START: Final = "(( $+functions[compdef] )) || { autoload -Uz compinit && compinit -u }"
"""A ~/.zshrc without compinit has no compdef, which the script calls."""
_WORD: Final = re.compile(r"[\w.,:@%+=/-]+")


@add_completion_class
class BashWords(BashComplete):
    """Leaves out what bash would not read as that word: click's script inserts values as they are, and whoever may
    create connectors chooses their names. (The other shells quote.)
    """

    @override
    def get_completions(self, args: list[str], incomplete: str) -> list[CompletionItem[Any]]:
        found = super().get_completions(args, incomplete)
        return [item for item in found if item.type != "plain" or _WORD.fullmatch(item.value)]


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print a script with which a shell completes heeler's commands, options and connectors.

    Bash: add eval "$(heeler completion bash)" to ~/.bashrc; zsh likewise to ~/.zshrc; fish: heeler completion fish >
    ~/.config/fish/completions/heeler.fish
    """
    completion = get_completion_class(shell)
    if completion is None:
        raise click.UsageError(f"There is no completion for the shell {shell}")
    script = completion(context.find_root().command, {}, "heeler", "_HEELER_COMPLETE").source()
    click.echo(script.replace(_ZSH_HEAD, f"{_ZSH_HEAD}\n{_ZSH_START}", 1) if shell == "zsh" else script)
