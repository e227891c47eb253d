import pytest

from spark_tasks.data.schema import Schema, Type
from spark_tasks.errors import DataError
from spark_tasks.pipeline.converters.java_columns import typed


@pytest.mark.parametrize(("schema", "value"), [
    (Schema(Type.ARRAY), [True, 1.5]), (Schema(Type.MAP, key=Schema(Type.STRING)), {"a": 1}),
    (Schema(Type.ARRAY, value=Schema(Type.ARRAY)), [[1, "x"]]),
])
def test_a_schema_without_types_of_elements_has_no_column(schema, value):
    """The error did not count as one of the record: it failed the task."""
    with pytest.raises(DataError, match="no element, key or value type"):
        typed([value], schema)
