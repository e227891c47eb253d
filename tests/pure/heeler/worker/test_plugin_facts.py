"""Questions about plugins are answered in time, even if a plugin hangs while it is imported."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from actors.errors import NotFoundError
from heeler.worker.plugin_facts import PluginFacts
from spark_tasks.errors import ConnectError
from spark_tasks.plugins import Kind, PluginVersionError
from tests.rigs.support import wait_until

WITHIN_S = 20.0


class SlowPlugins:
    """Plugins that are imported when `imported` is set; those named Good have been imported already."""

    def __init__(self) -> None:
        self.imported = threading.Event()
        self.calls: list[object] = []

    def connector_type(self, config: Mapping[str, str]) -> str:
        self._import(config.get("connector.class"))
        return "source"

    def get(self, kind: Kind, name: str, wanted: str | None) -> Any:
        self._import(name)
        if wanted is not None:
            raise PluginVersionError(wanted)
        return SimpleNamespace(version="1.2") if kind is Kind.CONVERTER else None

    def search(self, name: str) -> None:
        self._import(name)

    def advice(self, *_: object) -> str:
        return "no such plugin"

    def all(self) -> list[str]:
        self._import(None)
        return ["one"]

    def _import(self, name: str | None) -> None:
        self.calls.append(name)
        if name == "Bad":
            raise TypeError("a plugin's defect")
        if name != "Good":
            assert self.imported.wait(WITHIN_S)


@pytest.fixture
def plugins() -> Iterator[SlowPlugins]:
    made = SlowPlugins()
    yield made
    made.imported.set()


@pytest.fixture
def facts(plugins: SlowPlugins) -> PluginFacts:
    return PluginFacts(plugins, wait_s=0.02, long_wait_s=0.02)  # type: ignore[arg-type]


def is_described(facts: PluginFacts, name: str) -> bool:
    """Whether the answer is that there is no such plugin."""
    with pytest.raises(ConnectError) as raised:
        facts.describe(name, None)
    return isinstance(raised.value, NotFoundError)


SLOW = {"connector.class": "Slow"}


def test_a_connector_whose_import_hangs_has_an_unknown_type_until_it_ends(
        plugins: SlowPlugins, facts: PluginFacts) -> None:
    assert [facts.connector_type(SLOW) for _ in range(3)] == ["unknown"] * 3
    wait_until(lambda: plugins.calls == ["Slow"], WITHIN_S, "the import, once, on another thread")
    assert facts.known() == 0
    plugins.imported.set()
    wait_until(lambda: facts.known() == 1, WITHIN_S, "the import")
    assert facts.connector_type(SLOW) == "source"


def test_a_hanging_import_delays_no_other_answers(plugins: SlowPlugins) -> None:
    facts = PluginFacts(plugins, wait_s=WITHIN_S)  # type: ignore[arg-type]
    assert facts.connector_type(SLOW, waits=False) == "unknown"
    assert facts.connector_type({"connector.class": "Good"}) == "source"


def test_the_herder_does_not_wait_at_all(plugins: SlowPlugins) -> None:
    facts = PluginFacts(plugins, wait_s=3600.0)  # type: ignore[arg-type]
    assert facts.connector_type(SLOW, waits=False) == "unknown"
    plugins.imported.set()
    wait_until(lambda: facts.connector_type(SLOW, waits=False) == "source", WITHIN_S, "the import")


def test_the_version_of_a_plugin(plugins: SlowPlugins) -> None:
    plugins.imported.set()
    facts = PluginFacts(plugins)  # type: ignore[arg-type]
    assert facts.version(Kind.CONVERTER, "C", None) == "1.2"
    assert facts.version(Kind.CONVERTER, "C", "[2.0,)") is None
    assert facts.version(Kind.TRANSFORMATION, "C", None) is None


def test_a_defect_of_a_plugin_is_no_error_of_pages_about_others(
        facts: PluginFacts, caplog: pytest.LogCaptureFixture) -> None:
    for _ in range(2):
        assert facts.connector_type({"connector.class": "Bad"}) == "unknown"
        assert facts.version(Kind.CONVERTER, "Bad", None) is None
    assert caplog.text.count("TypeError: a plugin's defect") == 2, "once for each question"
    assert facts.connector_type({"connector.class": "Good"}) == "source"


def test_the_list_of_plugins_is_refused_while_one_hangs(plugins: SlowPlugins, facts: PluginFacts) -> None:
    with pytest.raises(ConnectError, match="still being imported"):
        facts.all()
    plugins.imported.set()
    wait_until(lambda: facts.known() == 1, WITHIN_S, "the import")
    assert facts.all() == ["one"]


def test_the_answers_that_were_used_last_are_kept(plugins: SlowPlugins) -> None:
    """Clients may ask for any number of version ranges."""
    plugins.imported.set()
    facts = PluginFacts(plugins, max_facts=3)  # type: ignore[arg-type]
    facts.version(Kind.CONVERTER, "Used", None)
    for number in range(10):
        facts.version(Kind.CONVERTER, "C", f"[{number}.0,)")
        facts.version(Kind.CONVERTER, "Used", None)
    assert facts.known() == 11
    assert plugins.calls.count("Used") == 1
    facts.version(Kind.CONVERTER, "C", "[9.0,)")
    assert plugins.calls.count("C") == 10, "kept"
    facts.version(Kind.CONVERTER, "C", "[0.0,)")
    assert plugins.calls.count("C") == 11, "forgotten"
    assert facts.known() == 12, "a number that grows with each answer"


def test_questions_that_wait_are_limited(plugins: SlowPlugins) -> None:
    facts = PluginFacts(plugins, wait_s=0.02, long_wait_s=0.02, max_facts=2)  # type: ignore[arg-type]
    for name in ("Slow", "Slower", "Good"):
        assert facts.connector_type({"connector.class": name}) == "unknown"
        with pytest.raises(ConnectError, match="still being imported"):
            facts.describe(name, None)
    assert "Good" not in plugins.calls
    plugins.imported.set()
    wait_until(lambda: facts.known() == 2, WITHIN_S, "the imports")
    assert facts.connector_type({"connector.class": "Good"}) == "source"
    wait_until(lambda: is_described(facts, "Good"), WITHIN_S, "the descriptions")


def test_a_plugin_that_hangs_is_not_described_and_is_imported_once(plugins: SlowPlugins, facts: PluginFacts) -> None:
    for _ in range(3):
        with pytest.raises(ConnectError, match="The plugin Slow is still being imported"):
            facts.describe("Slow", None)
    assert plugins.calls == ["Slow"]
    plugins.imported.set()
    wait_until(lambda: is_described(facts, "Slow"), WITHIN_S, "the import")
