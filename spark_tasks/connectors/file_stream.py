"""Kafka Connect's file connectors, under one name."""

from spark_tasks.connectors.file_stream_sink import FileStreamSinkConnector
from spark_tasks.connectors.file_stream_source import FileStreamSourceConnector

__all__ = ["FileStreamSinkConnector", "FileStreamSourceConnector"]
