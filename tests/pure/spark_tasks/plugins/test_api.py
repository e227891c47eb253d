"""The plugin contract: mistakes of a connector's author are reported at once, with the connector's name."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql.datasource import DataSource

from spark_tasks.config.definition import ConfigDef
from spark_tasks.errors import ConfigError
from spark_tasks.plugins.api import SinkConnector, SourceConnector
from spark_tasks.validation import ValidationSettings, validate_connector
from tests.rigs.tasks import plugins_with


@pytest.mark.parametrize(("base", "name"), [(SourceConnector, "yields"), (SinkConnector, "accepts")])
def test_a_misspelled_shape_of_records_is_refused(base: type[Any], name: str) -> None:
    mistake = type("Ticks", (base,), {name: "row"}).mistake
    assert mistake == f"""Ticks.{name} is 'row'; it must be "records" or "rows\""""
    assert type("Ticks", (base,), {name: "rows"}).mistake is None
    assert getattr(type("Ticks", (base,), {name: "rows"}), name) == "rows"


@pytest.mark.parametrize(("base", "tasks"), [(SourceConnector, 1), (SinkConnector, 3)])
def test_by_default_a_sink_has_as_many_tasks_as_it_may_have_and_a_source_one(base: type[Any], tasks: int) -> None:
    config = {"name": "c", "path": "p"}
    plain = type("Plain", (base,), {"data_source": classmethod(lambda _, options: DataSource(options))})
    assert plain(config, None).task_configs(3) == [config] * tasks


class Careless(SourceConnector):
    """Its `validate` answers whatever the configuration says."""

    config_def = ConfigDef()
    answer: Any = None

    @classmethod
    def validate(cls, config: Any) -> Any:  # noqa: ARG003
        return cls.answer

    @classmethod
    def data_source(cls, options: Any) -> DataSource:
        return DataSource(options)


def errors() -> list[str]:
    config = {"name": "c", "connector.class": f"{__name__}.Careless", "topic": "t"}
    plugins = plugins_with(f"{__name__}:Careless")
    return validate_connector(config, plugins=plugins, worker=ValidationSettings()).errors()


def test_a_validation_may_return_a_single_message(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Careless, "answer", {"topic": "There is no such thing"})
    assert errors() == ["There is no such thing"]


def test_a_validation_without_a_response_is_reported() -> None:
    with pytest.raises(ConfigError, match=r"Careless.validate\(\) returns a NoneType; it must return lists"):
        errors()
