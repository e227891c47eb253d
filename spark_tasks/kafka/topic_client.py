"""Network clients for those of kafka-python's consumers and producers that use a single topic."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from kafka.future import Future
from kafka.net.compat import KafkaNetClient
from kafka.net.selector import NetworkSelector
from kafka.protocol.producer import ProduceRequest
from typing_extensions import override

from spark_tasks.kafka.recovery import RecoveringManager

_METADATA_BACKOFF_MS: Final = 20  # between metadata requests; the library's 100 ms would delay every start


class _CheckedClient(KafkaNetClient):  # type: ignore[misc]
    """Calls `check` before each produce request. If it returns an error, the request fails with it and is not sent."""

    def __init__(self, check: Callable[[], Exception | None], **configs: Any) -> None:
        super().__init__(**configs)
        self._check = check

    @override
    def send(self, node_id: Any, request: Any, **options: Any) -> Future:
        if isinstance(request, ProduceRequest) and (error := self._check()) is not None:
            return Future().failure(error)
        return super().send(node_id, request, **options)


def client_for(topic: str, check: Callable[[], Exception | None] | None = None) -> Callable[..., KafkaNetClient]:
    """Returns a `kafka_client` factory for clients of one topic, which request its metadata from the start. `check` is
    called before records are sent; if it returns an error, they are not sent, and their futures fail with it.
    """

    def make(**configs: Any) -> KafkaNetClient:
        net = NetworkSelector(**configs)
        configs |= {"net": net, "manager": RecoveringManager(net, **configs)}
        client = KafkaNetClient(**configs) if check is None else _CheckedClient(check, **configs)
        client.cluster.config["retry_backoff_ms"] = _METADATA_BACKOFF_MS
        client.cluster.config["allow_auto_create_topics"] = False  # such a topic would not be compacted
        client.cluster.set_topics([topic])
        return client

    return make
