"""A KafkaCluster on asyncio, with a broker that a test simulates."""

from __future__ import annotations

import asyncio
import threading

from kafka.protocol.producer import ProduceRequest


class Io:
    """The IO thread's contract on asyncio."""

    request_timeout_ms = 1000
    alive = True

    def __init__(self, broker):
        self.broker = broker
        self.lanes = set()
        self.runner = asyncio.Runner(loop_factory=asyncio.new_event_loop)
        self.loop = self.runner.get_loop()
        self.thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self.thread.start()

    def start(self, function, *arguments):
        def begin():
            result = function(*arguments)
            if asyncio.iscoroutine(result):
                self.loop.create_task(result)

        self.loop.call_soon_threadsafe(begin)

    async def send(self, request, _node, *, lane):
        if isinstance(request, ProduceRequest):
            self.lanes |= {(topic.name, part.index, lane)
                           for topic in request.topic_data for part in topic.partition_data}
        answer = await self.broker.answer(request)
        await asyncio.sleep(0)
        return answer

    async def sleep(self, _milliseconds):
        await asyncio.sleep(0)

    def close(self):
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join()
        self.runner.close()  # cancels tasks, even those that have not begun, as the connections' own loop does


class Cluster:
    """One node leads everything; the leader has to be looked for again after it was forgotten."""

    def __init__(self, broker, partitions=1):
        self.io = Io(broker)
        self.known = set()
        self.count = partitions
        self.after_more_were_added = None

    def partitions(self, _topic, *, create=False, expected=-1, timeout_ms=None):
        assert create or timeout_ms is not None
        if expected >= self.count:
            self.count = self.after_more_were_added or self.count
        return tuple(range(self.count))

    def known_leader(self, topic, partition):
        return 1 if (topic, partition) in self.known else None

    async def find_leader(self, topic, partition, _deadline):
        await asyncio.sleep(0)
        self.known.add((topic, partition))
        return 1

    def forget_leaders(self, topic):
        self.known = {where for where in self.known if where[0] != topic}
