"""Patterns mean what they mean in Java 17, whose answers are in tests/golden/java/patterns.tsv."""

from __future__ import annotations

import pickle
import re
import subprocess
import sys
from pathlib import Path

import pytest

from spark_tasks.config.definition import ConfigError
from spark_tasks.config.validators import ValidRegex
from spark_tasks.java.regex import compile_java

GOLDEN = Path(__file__).parents[3] / "golden" / "java" / "patterns.tsv"
ANSWERS = [line.split("\t") for line in GOLDEN.read_text(encoding="utf-8").split("\n")[:-1]]


def text(shown: str) -> str:
    found = re.sub("%u(....)", lambda match: chr(int(match[1], 16)), shown)
    return found.encode("utf-16", "surrogatepass").decode("utf-16")


def answer_to(pattern: str, texts: list[str]) -> str:
    try:
        compiled = compile_java(text(pattern))
    except re.error:
        return "error"
    return "".join("1" if compiled.fullmatch(text(one)) else "0" for one in texts)


def test_java_patterns_match_as_in_java() -> None:
    wrong = [(pattern, texts, found, answer) for answer, pattern, *texts in ANSWERS
             if (found := answer_to(pattern, texts)) != answer]
    assert wrong == []
    assert len(ANSWERS) > 300


@pytest.mark.parametrize(("pattern", "yes", "no"), [
    (r"t.*", "topic", "x"), (r"(?<a>x+)-\k<a>", "xx-xx", "xx-x"), (r"\Qa.b\E.", "a.bc", "axbc"),
    (r"\p{Alpha}+\p{Digit}", "ab1", "a1b"), (r"[\p{Upper}_]+", "A_B", "a"),
    (r"a\z", "a", "a\n"), (r"(?i)AB", "ab", "b"),
    (r"[\[\]]", "]", "a"), (r"\\Qx", r"\Qx", "x"), (r"a\hb", "a\tb", "a\nb"), (r"a++b", "aab", "b"),
])
def test_usual_patterns(pattern: str, yes: str, no: str) -> None:
    compiled = compile_java(pattern)
    assert compiled.fullmatch(yes)
    assert not compiled.fullmatch(no)


@pytest.mark.parametrize("pattern", ["(", "[", "*a", r"\p{NoSuchClass}", "a{2,1}", ")", "[a", "a{99999999999}"])
def test_invalid_patterns_are_refused(pattern: str) -> None:
    with pytest.raises(re.error):
        compile_java(pattern)
    with pytest.raises(ConfigError, match="Invalid regex"):
        ValidRegex()("k", pattern)


@pytest.mark.parametrize("pattern", [r"(?U)\w", r"\b{g}", "[&&a]", "[a&&]", "[a&&&b]", "a{2}{3}", "|{2}", r"(?i)\1(a)",
                                     r"\p{javaMirrored}", "(?iu)[à-\uffff]"])  # fmt: skip
def test_what_has_no_translation_is_refused(pattern: str) -> None:
    with pytest.raises(re.error):
        compile_java(pattern)


@pytest.mark.parametrize(("pattern", "words"), [
    ("a(b", "Unclosed group near index 3\na(b"), ("a{2", "Unclosed counted closure near index 3\na{2"),
    ("a{x}", "Illegal repetition near index 2\na{x}\n  ^"), ("[", "Unclosed character class near index 0\n[\n^"),
    ("*a", "Dangling meta character '*' near index 0\n*a\n^"),
    ("a{2,1}", "Illegal repetition range near index 5\na{2,1}\n     ^"),
])  # fmt: skip
def test_errors_have_javas_words_and_place(pattern: str, words: str) -> None:
    """As RegexRouter of Kafka Connect 4.3.1 with Java 17 reports them."""
    with pytest.raises(ConfigError) as caught:
        ValidRegex()("k", pattern)
    assert str(caught.value) == f"Invalid value {pattern} for configuration k: Invalid regex: {words}"


def test_a_null_pattern_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"^Invalid value null for configuration k: Invalid regex"):
        ValidRegex()("k", None)


def test_a_pattern_can_be_sent_to_executors() -> None:
    assert pickle.loads(pickle.dumps(compile_java("[a-z&&[^b]]"))).fullmatch("a")


def test_no_pattern_causes_a_warning() -> None:
    code = "from spark_tasks.java.regex import compile_java; [compile_java(p) for p in ('[a||b]', '[a~~b]', '[a[b]]')]"
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True)
