"""A source that executors read in parallel, and a transform, with helpers of their own."""

import pyarrow as pa
import pyarrow.compute as pc
import utils
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition

from heeler import ConfigDef, ConfigKey, SourceConnector, Type
from spark_tasks.pipeline.transforms.base import Transform


class Pieces(DataSourceStreamReader):
    def initialOffset(self):
        return {"n": 0}

    def latestOffset(self, start, limit):
        return {"n": 3}

    def partitions(self, start, end):
        return [InputPartition(utils.Piece(n)) for n in range(start["n"], end["n"])]

    def read(self, partition):
        from importlib import import_module

        import storage

        assert isinstance(partition.value, import_module("utils").Piece)
        yield (f"{partition.value.label()}, {storage.KEPT}",)


class PiecesData(DataSource):
    def schema(self):
        return "value string"

    def streamReader(self, schema):
        return Pieces()


class PiecesOneSourceConnector(SourceConnector):
    yields = "rows"
    config_def = ConfigDef(ConfigKey("topic", Type.STRING, doc="The topic to write to."))

    @classmethod
    def data_source(cls, options):
        return PiecesData(options)


class MarkOne(Transform):
    def configure(self, configs):
        import storage

        self.mark = storage.KEPT

    def apply(self, batch):
        at = batch.schema.get_field_index("value")
        marked = pa.StructArray.from_arrays(
            [pc.binary_join_element_wise(batch.column(at).field(0), self.mark, "; ")], ["value"])
        return batch.set_column(at, pa.field("value", marked.type), marked)
