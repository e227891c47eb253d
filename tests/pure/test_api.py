"""The plugin contract: what the author of a connector got wrong is told at once, in the connector's name."""

from __future__ import annotations

from typing import Any

import pytest

from spark_tasks.api import SinkConnector, SourceConnector
from spark_tasks.errors import ConfigError


@pytest.mark.parametrize(("base", "name"), [(SourceConnector, "yields"), (SinkConnector, "accepts")])
def test_a_misspelt_shape_of_records_is_refused(base: type[Any], name: str) -> None:
    with pytest.raises(ConfigError, match=f"""Ticks.{name} is 'row'; it has to be "records" or "rows"$"""):
        type("Ticks", (base,), {name: "row"})
    assert getattr(type("Ticks", (base,), {name: "rows"}), name) == "rows"
