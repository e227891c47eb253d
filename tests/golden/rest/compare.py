"""Compares a response with that of Java Kafka Connect 4.3.1."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from tests.golden.rest.record import contains
from tests.golden.rest.steps import Step

# Texts of Java's parser that we do not imitate to the last word: what comes before these marks is the same.
CUT = re.compile(r"\n at \[Source|, not marked as ignorable|, available connectors are:")
OWN_WORDS = re.compile(  # a null pointer, or a syntax error: the status is the same
    r"Cannot invoke|Unexpected|Unrecognized (token|character)|Non-standard|Invalid numeric|Illegal unquoted|"
    r"Trailing token")
CONFIG = re.compile(r"(?<=Connector config \{).*(?=\})")  # in the order of a hash map


def recorded(scenario: str) -> list[dict[str, Any]]:
    """Java's answers to the steps of a scenario."""
    return json.loads(Path(__file__).with_name(f"{scenario}.json").read_text())


def check(step: Step, expected: dict[str, Any], actual: dict[str, Any]) -> None:
    """Raises AssertionError. Both have `status`, `headers` and `answer`, as record.py writes them."""
    assert actual["status"] == expected["status"], actual
    if expected["status"] >= 400 and step.method != "HEAD":
        _check_error(expected["status"], expected["answer"], actual["answer"])
    else:
        _same(without_times(actual["answer"]), without_times(expected["answer"]))
    if step.until is not None:
        assert contains(step.until, actual["answer"]), f"{actual['answer']}, not {step.until}"
    _check_headers(expected["headers"], actual["headers"])


def _check_error(status: int, answer: Any, actual: Any) -> None:
    _same(actual.keys(), {"error_code", "message"})
    _same(actual["error_code"], status)
    assert actual["message"], "an error without words"
    if isinstance(answer, dict) and not OWN_WORDS.match(answer["message"]):
        _same(_words(actual["message"]), _words(answer["message"]))


def _same(actual: Any, expected: Any) -> None:
    assert actual == expected, f"{actual}, not {expected}"  # pytest does not look into asserts outside its test files


def _words(message: str) -> str:
    return CONFIG.sub(lambda found: ", ".join(sorted(found[0].split(", "))), CUT.split(message)[0])


def _check_headers(expected: dict[str, str], actual: dict[str, str]) -> None:
    if "json" in expected.get("Content-Type", ""):
        assert actual["Content-Type"].startswith("application/json"), actual["Content-Type"]
    _same(actual.get("Location"), expected.get("Location"))
    if "Allow" in expected:
        _same(set(re.split(r",\s*", actual["Allow"])), set(expected["Allow"].split(",")))


def without_times(answer: Any) -> Any:
    """The same without the times at which loggers were changed."""
    if isinstance(answer, dict):
        return {key: "time" if key == "last_modified" and value else without_times(value)
                for key, value in answer.items()}
    return answer
