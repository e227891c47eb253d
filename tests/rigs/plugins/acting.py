"""A data source of numbered texts that calls `act` at each operation."""

from pyspark.sql.datasource import (
    DataSource,
    DataSourceStreamReader,
    DataSourceWriter,
    InputPartition,
    WriterCommitMessage,
)


class Reader(DataSourceStreamReader):
    def __init__(self, act, options, most):
        self.act, self.options, self.most = act, options, most

    def initialOffset(self):
        return {"n": 0}

    def latestOffset(self, start, limit):
        self.act(self.options, "plan")
        return {"n": min(start["n"] + 1, self.most)}

    def partitions(self, start, end):
        return [InputPartition(n) for n in range(start["n"], end["n"])]

    def read(self, partition):
        self.act(self.options, "read")
        yield (f"record {partition.value}",)


class Writer(DataSourceWriter):
    def __init__(self, act, options):
        self.act, self.options = act, options

    def write(self, iterator):
        self.act(self.options, "write")
        return WriterCommitMessage()


class Acting(DataSource):
    most = 10**9  # records in all

    @staticmethod
    def act(options, place):
        """What a subclass does at `plan`, `read` or `write`."""

    def schema(self):
        return "value string"

    def streamReader(self, schema):
        return Reader(self.act, dict(self.options), self.most)

    def writer(self, schema, overwrite):
        return Writer(self.act, dict(self.options))
