"""Characters that a terminal acts on or hides are shown as escapes that keep the text's meaning."""

import json

import pytest
import yaml

from heeler.cli.console.output import Format, data_text
from heeler.cli.console.safe_text import safe, unsafe
from spark_tasks.process.log_lines import escaped

HIDDEN = ["\x1b", "\x7f", "\x9b", "\u061c", "\u180e", "\u200b", "\u202e", "\u2066", "\ufeff", "\ufffa", "\U000e0041"]


@pytest.mark.parametrize("character", [*HIDDEN, "\u200c", "\u200d"])
def test_hidden_characters_are_shown_and_keep_their_meaning(character):
    text = f"a{character}b"
    assert unsafe(text)
    assert (safe(text)[:2], safe(text)[-1]) == ("a\\", "b")
    for form, read in ((Format.JSON, json.loads), (Format.YAML, yaml.safe_load)):
        shown = data_text({"name": text}, form)
        assert character not in shown
        assert read(shown) == {"name": text}


@pytest.mark.parametrize("character", HIDDEN)
def test_the_log_shows_the_same_characters(character):
    assert character not in escaped(f"a{character}b")


@pytest.mark.parametrize("text", ["naïve", "日本語", "🙂", "a… b"])
def test_other_text_remains(text):
    assert safe(text) == escaped(text) == text
