from __future__ import annotations

import re

import pytest

from spark_tasks.config.definition import ConfigError
from spark_tasks.config.validators import ValidRegex
from spark_tasks.java.regex import compile_java


@pytest.mark.parametrize(("pattern", "yes", "no"), [
    (r"t.*", "topic", "x"), (r"(?<a>x+)-\k<a>", "xx-xx", "xx-x"), (r"\Qa.b\E.", "a.bc", "axbc"),
    (r"\p{Alpha}+\p{Digit}", "ab1", "a1b"), (r"[\p{Upper}_]+", "A_B", "a"),
    (r"a\z", "a", "a\n"), (r"(?i)AB", "ab", "b"),
    (r"[\[\]]", "]", "a"), (r"\\Qx", r"\Qx", "x"), (r"a\hb", "a\tb", "a\nb"), (r"a++b", "aab", "b"),
])
def test_java_patterns_match_as_in_java(pattern, yes, no):
    compiled = compile_java(pattern)
    assert compiled.fullmatch(yes)
    assert not compiled.fullmatch(no)


@pytest.mark.parametrize("pattern", ["(", "[", "*a", r"\p{NoSuchClass}", "a{2,1}"])
def test_invalid_patterns_are_refused(pattern):
    with pytest.raises(re.error):
        compile_java(pattern)
    with pytest.raises(ConfigError, match="Invalid regex"):
        ValidRegex()("k", pattern)


def test_a_null_pattern_is_refused():
    with pytest.raises(ConfigError, match=r"^Invalid value null for configuration k: Invalid regex"):
        ValidRegex()("k", None)
