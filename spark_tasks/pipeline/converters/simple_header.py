"""SimpleHeaderConverter: header values as texts whose types are guessed."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from typing_extensions import override

from spark_tasks.data.schema import BYTES, Schema
from spark_tasks.java.utf8 import decoded
from spark_tasks.pipeline.converters import values
from spark_tasks.pipeline.converters.base import HeaderConverter
from spark_tasks.process.rate_limited_log import RateLimitedLog

_logger = logging.getLogger(__name__)
_warnings = RateLimitedLog()


class SimpleHeaderConverter(HeaderConverter):
    """Behaves as Kafka Connect's SimpleHeaderConverter. A header that cannot be read remains bytes."""

    version = "4.3.1"
    aliases = ("org.apache.kafka.connect.storage.SimpleHeaderConverter", "SimpleHeaderConverter")

    @override
    def configure(self, configs: Mapping[str, str]) -> None:
        """Does nothing: there are no settings."""

    @override
    def to_connect_header(self, topic: str, name: str, value: bytes | None) -> tuple[Schema | None, Any]:
        if value is None:
            return None, None
        try:
            return values.parse_string(decoded(value))
        except (ValueError, ArithmeticError, RecursionError) as error:
            _warnings.log(_logger, logging.WARNING, "Could not read header %r on topic %s, so it remains bytes: %s",
                          name, topic, error)
            return BYTES, value

    @override
    def from_connect_header(
        self,
        topic: str,
        name: str,
        schema: Schema | None,
        value: Any,
    ) -> bytes | None:
        text = values.to_string(value)
        return None if text is None else text.encode()
