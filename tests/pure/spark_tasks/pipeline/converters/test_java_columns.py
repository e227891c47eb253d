import pytest

from spark_tasks.data.schema import Schema, Type
from spark_tasks.errors import DataError
from spark_tasks.pipeline.converters.java_columns import column, runs, typed


@pytest.mark.parametrize(("schema", "value"), [
    (Schema(Type.ARRAY), [True, 1.5]), (Schema(Type.MAP, key=Schema(Type.STRING)), {"a": 1}),
    (Schema(Type.ARRAY, value=Schema(Type.ARRAY)), [[1, "x"]]),
])
def test_a_schema_without_types_of_elements_has_no_column(schema, value):
    """The error did not count as one of the record: it failed the task."""
    with pytest.raises(DataError, match="no element, key or value type"):
        typed([value], schema)


@pytest.mark.parametrize("second", [{"b": 2, "a": 1}, 5])
def test_maps_with_different_orders_are_apart_only_if_they_become_few_runs(second):
    """Of more than 64 maps, the first order counts for all."""
    rows = [(None, {"a": 1, "b": 2} if second != 5 else {"b": 2, "a": 1}), (None, second)] * 40
    assert len(runs(rows[:64])) == 64
    assert runs(rows) == [80]
    assert len(column(rows)[0]) == 80
