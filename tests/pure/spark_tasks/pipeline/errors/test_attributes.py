"""Reads what errors of plugins say about themselves, whatever that is."""

from __future__ import annotations

from http import HTTPStatus
from types import SimpleNamespace
from typing import Any

import pytest

from spark_tasks.pipeline.errors.attributes import attribute_of, is_a, number_of, text_of


class Proxy:
    """As werkzeug's LocalProxy outside of a request."""

    @property
    def __class__(self) -> Any:
        raise RuntimeError("working outside of a context")

    @__class__.setter
    def __class__(self, value: Any) -> None:
        raise NotImplementedError


def test_an_attribute_of_an_attribute() -> None:
    thing = SimpleNamespace(response=SimpleNamespace(status_code=503))
    assert attribute_of(thing, "response", "status_code") == 503
    assert attribute_of(thing, "meta", "status") is None


def test_a_property_that_raises_has_no_value() -> None:
    assert attribute_of(Proxy(), "__class__") is None


@pytest.mark.parametrize("thing", [None, b"1", 1.5, [1], {1: 2}.items()], ids=repr)
def test_only_texts_are_texts_and_only_numbers_are_numbers(thing: object) -> None:
    assert text_of(thing) == ""
    assert number_of(thing) == 0
    assert not is_a(thing, dict)


def test_a_proxy_is_not_asked() -> None:
    assert text_of(Proxy()) == ""
    assert number_of(Proxy()) == 0
    assert not is_a(Proxy(), dict)


def test_subclasses_become_plain() -> None:
    assert type(number_of(HTTPStatus.CONFLICT)) is int
    assert number_of(HTTPStatus.CONFLICT) == 409
    text = text_of(type("Text", (str,), {"__str__": lambda _: "other"})("40001"))
    assert type(text) is str
    assert text == "40001"
