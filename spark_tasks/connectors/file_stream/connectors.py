"""Kafka Connect's file connectors in one module, for the entry points."""

from spark_tasks.connectors.file_stream.sink import FileStreamSinkConnector
from spark_tasks.connectors.file_stream.source import FileStreamSourceConnector

__all__ = ["FileStreamSinkConnector", "FileStreamSourceConnector"]
