import time

from pyspark.sql.datasource import DataSource, SimpleDataSourceStreamReader

from heeler import ConfigDef, ConfigKey, SourceConnector, Type


class ClockReader(SimpleDataSourceStreamReader):
    def initialOffset(self):
        return {"second": int(time.time())}

    def read(self, start):
        end = {"second": int(time.time())}
        return self.readBetweenOffsets(start, end), end

    def readBetweenOffsets(self, start, end):
        return ((second,) for second in range(start["second"], end["second"]))


class Clock(DataSource):
    def schema(self):
        return "second bigint"

    def simpleStreamReader(self, schema):
        return ClockReader()


class ClockSourceConnector(SourceConnector):
    yields = "rows"
    config_def = ConfigDef(ConfigKey("topic", Type.STRING, doc="Where to write a record each second."))

    @classmethod
    def data_source(cls, options):
        return Clock(options)
