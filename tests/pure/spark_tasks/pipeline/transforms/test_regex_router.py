"""RegexRouter's replacements, with what Java 17 makes of them."""

from __future__ import annotations

import pytest

from spark_tasks.java.regex import compile_java
from spark_tasks.pipeline.converters.java_values import JavaError
from spark_tasks.pipeline.transforms.regex_router import expand

MISSING = "named capturing group is missing trailing '}'"
EMPTY = "named capturing group has 0 length name"
REFERENCE = "Illegal group reference"


def expanded(template: str) -> str:
    match = compile_java("(?<name>t)(o)").search("to")
    assert match is not None
    return expand(template, match)


@pytest.mark.parametrize(("template", "text"), [
    ("${name}", "t"), ("$12", "t2"), ("$1\u0663", "t\u0663"), ("$0-$2", "to-o"), (r"\$1", "$1"), ("x", "x"),
])  # fmt: skip
def test_replacements(template: str, text: str) -> None:
    assert expanded(template) == text


@pytest.mark.parametrize(("template", "message"), [
    ("${", EMPTY), ("${}", EMPTY), ("${\u00e4}", EMPTY),
    ("${1}", "capturing group name {1} starts with digit character"),
    ("${1", MISSING), ("a${name", MISSING), ("${na-me}", MISSING), ("${nope}", "No group with name {nope}"),
    ("$", f"{REFERENCE}: group index is missing"), ("${name}$", f"{REFERENCE}: group index is missing"),
    ("$a", REFERENCE), ("$\u0663", REFERENCE), ("$3", "No group 3"), ("\\", "character to be escaped is missing"),
])  # fmt: skip
def test_invalid_replacements_have_javas_message(template: str, message: str) -> None:
    with pytest.raises(JavaError) as raised:
        expanded(template)
    assert str(raised.value).endswith(message)
