"""Well-known Java plugins that heeler does not have by their class names, and what to use instead.

A name that ends with a dot means all classes of the package. The remedy starts with "use" if heeler has an equivalent
under another name; otherwise it is empty or names something that may help.
"""

from __future__ import annotations

from collections.abc import Mapping

from spark_tasks.plugins.kinds import Kind

_READ = "`pyspark-source` can run a PySpark data source that reads from it"
_WRITE = "`pyspark-sink` can run a PySpark data source that writes to it"
_FILES = "use `files`, which reads folders of CSV, JSON lines and Parquet"
_BUCKET = "`files` reads a folder, which may be a mounted bucket"
_PARQUET = "`parquet` writes files into a folder, which may be a mounted bucket"

JARS = frozenset({Kind.CONNECTOR, Kind.TRANSFORMATION, Kind.PREDICATE, Kind.CONVERTER, Kind.HEADER_CONVERTER,
                  Kind.CONFIG_PROVIDER})
"""The kinds of plugins that run from jars in plugin.path (docs/java-plugins.md)."""

JAVA: Mapping[Kind, Mapping[str, str]] = {
    Kind.CONNECTOR: {
        "org.apache.kafka.connect.mirror.": "",
        "org.apache.kafka.connect.tools.VerifiableSinkConnector": "use `verify`, which checks records of `datagen`",
        "org.apache.kafka.connect.tools.VerifiableSourceConnector": "use `datagen`",
        "org.apache.kafka.connect.tools.MockSinkConnector": "",
        "org.apache.kafka.connect.tools.MockSourceConnector": "",
        "org.apache.kafka.connect.tools.SchemaSourceConnector": "use `datagen`",
        "io.confluent.kafka.connect.datagen.DatagenConnector": "use `datagen`, which generates other records",
        "io.confluent.connect.jdbc.JdbcSourceConnector": _READ,
        "io.confluent.connect.jdbc.JdbcSinkConnector": _WRITE,
        "io.aiven.connect.jdbc.JdbcSourceConnector": _READ,
        "io.aiven.connect.jdbc.JdbcSinkConnector": _WRITE,
        "io.debezium.connector.jdbc.JdbcSinkConnector": _WRITE,
        "io.debezium.": "",
        "io.confluent.connect.s3.S3SinkConnector": _PARQUET,
        "io.confluent.connect.s3.source.S3SourceConnector": _BUCKET,
        "io.aiven.kafka.connect.s3.": _PARQUET,
        "io.confluent.connect.gcs.GcsSinkConnector": _PARQUET,
        "io.confluent.connect.gcs.GcsSourceConnector": _BUCKET,
        "io.aiven.kafka.connect.gcs.GcsSinkConnector": _PARQUET,
        "io.confluent.connect.azure.blob.AzureBlobStorageSinkConnector": _PARQUET,
        "io.confluent.connect.azure.blob.storage.AzureBlobStorageSourceConnector": _BUCKET,
        "io.confluent.connect.hdfs.HdfsSinkConnector": _PARQUET,
        "io.confluent.connect.hdfs3.Hdfs3SinkConnector": _PARQUET,
        "com.github.jcustenborder.kafka.connect.spooldir.": _FILES,
        "io.streamthoughts.kafka.connect.filepulse.source.FilePulseSourceConnector": _FILES,
        "io.confluent.connect.elasticsearch.ElasticsearchSinkConnector": _WRITE,
        "io.aiven.kafka.connect.opensearch.OpensearchSinkConnector": _WRITE,
        "com.mongodb.kafka.connect.MongoSourceConnector": _READ,
        "com.mongodb.kafka.connect.MongoSinkConnector": _WRITE,
        "com.snowflake.kafka.connector.SnowflakeSinkConnector": _WRITE,
        "com.wepay.kafka.connect.bigquery.BigQuerySinkConnector": _WRITE,
        "org.apache.iceberg.connect.IcebergSinkConnector": _WRITE,
        "com.clickhouse.kafka.connect.ClickHouseSinkConnector": _WRITE,
        "com.datastax.oss.kafka.sink.CassandraSinkConnector": _WRITE,
        "com.redis.kafka.connect.RedisSinkConnector": _WRITE,
        "io.confluent.connect.http.HttpSinkConnector": _WRITE,
        "io.aiven.kafka.connect.http.HttpSinkConnector": _WRITE,
        "com.splunk.kafka.connect.SplunkSinkConnector": _WRITE,
        "io.confluent.connect.replicator.ReplicatorSourceConnector": "",
        "org.apache.camel.kafkaconnector.": "",
    },
    Kind.TRANSFORMATION: {
        "io.confluent.connect.transforms.": "",
        "io.debezium.transforms.": "",
        "io.aiven.kafka.connect.transforms.": "",
    },
    Kind.PREDICATE: {},
    Kind.CONVERTER: {
        "io.apicurio.registry.utils.converter.ProtobufConverter":
            "use `io.confluent.connect.protobuf.ProtobufConverter`, and set apicurio.registry.serde.send-indexes=true "
            "and …send-type-ref=false in Apicurio's own clients, whose default format differs",
        "io.apicurio.registry.utils.converter.ExtJsonConverter":
            "nothing else reads its format; for new topics use `io.confluent.connect.json.JsonSchemaConverter` with "
            "Apicurio's URL that ends in /apis/ccompat/v7",
        "io.apicurio.registry.utils.converter.":
            "use `io.confluent.connect.avro.AvroConverter` with Apicurio's URL that ends in /apis/ccompat/v7",
        "io.debezium.converters.": "",
    },
    Kind.HEADER_CONVERTER: {},
    Kind.CONFIG_PROVIDER: {
        "io.strimzi.kafka.EnvVarConfigProvider": "use `org.apache.kafka.common.config.provider.EnvVarConfigProvider`",
        "io.strimzi.kafka.KubernetesSecretConfigProvider":
            "use `org.apache.kafka.common.config.provider.DirectoryConfigProvider` with the secret mounted as a folder",
        "io.strimzi.kafka.KubernetesConfigMapConfigProvider":
            "use `org.apache.kafka.common.config.provider.DirectoryConfigProvider` with the map mounted as a folder",
        "com.amazonaws.kafka.config.providers.": "",
        "io.confluent.csid.config.provider.": "",
        "io.lenses.connect.secrets.providers.": "",
    },
}


def instead(kind: Kind, name: str) -> tuple[str, str] | None:
    """Returns the table's entry for a Java class, by its full or short name, and the remedy; None if there is none."""
    table = JAVA.get(kind, {}) if name else {}
    packages = sorted((entry for entry in table if entry.endswith(".") and name.startswith(entry)), key=len)
    short = {name, f"{name}{kind.interface}"}
    simple = [entry for entry in table if entry.rpartition(".")[2] in short and "." not in name]
    for entry in (name, *reversed(packages), *simple[:1]):
        if entry in table:
            return entry, table[entry]
    return None
