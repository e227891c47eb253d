"""Fetch sessions beside a broker that keeps the rules of KIP-227."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import kafka.errors as protocol
from hypothesis import given
from hypothesis import strategies as st

from spark_tasks.kafka import fetch_session
from spark_tasks.kafka.fetch_session import FetchSession

PLACES = [("a", 0), ("a", 1), ("b", 0)]
positions = st.dictionaries(st.sampled_from(PLACES), st.integers(0, 2), min_size=1)


@dataclass
class Broker:
    """`knows` are the positions that it waits at, by session."""

    knows: dict[int, dict[tuple[str, int], int]] = field(default_factory=dict)
    epochs: dict[int, int] = field(default_factory=dict)
    grants: bool = True
    made: int = 0

    def take(self, request: Any) -> tuple[int, int, dict[tuple[str, int], int]]:
        """Error code, session id, and what it waits at for this request."""
        sent = {(t.topic, p.partition): p.fetch_offset for t in request.topics for p in t.partitions}
        forgotten = [(t.topic, p) for t in request.forgotten_topics_data for p in t.partitions]
        session = request.session_id
        if request.session_epoch == 0:
            assert not forgotten
            self.knows.pop(session, None)
            if not self.grants:
                return 0, 0, sent
            self.made += 1
            self.knows[self.made], self.epochs[self.made] = sent, 1
            return 0, self.made, sent
        if session not in self.knows:
            return protocol.FetchSessionIdNotFoundError.errno, 0, {}
        if request.session_epoch != self.epochs[session]:
            return protocol.InvalidFetchSessionEpochError.errno, 0, {}
        self.epochs[session] += 1
        assert not {tp for tp, at in sent.items() if self.knows[session].get(tp) == at}, "nothing new in it"
        self.knows[session] |= sent
        for tp in forgotten:
            del self.knows[session][tp]
        return 0, session, self.knows[session]


@given(st.lists(st.tuples(positions, st.sampled_from(["", "", "", "forgets", "lost before", "lost after", "grants"]))))
def test_the_broker_waits_at_the_requested_offsets(steps):
    """After a lost response or a session that the broker forgot, it is correct from the second response on."""
    broker, session = Broker(), FetchSession()
    for wanted, trouble in steps:
        if trouble == "forgets":
            broker.knows.clear()
        elif trouble == "grants":
            broker.grants = not broker.grants
        for attempt in range(3):
            request = session.request(wanted, max_wait_ms=1, max_bytes=1, partition_bytes=1)
            if trouble == "lost before" and not attempt:
                session.handle_error()
                continue
            error, granted, waits_at = broker.take(request)
            if trouble == "lost after" and not attempt:
                session.handle_error()
            elif session.handle_response(error, granted) and not error:
                break
        assert waits_at == wanted


def test_the_session_epoch_wraps_to_one(monkeypatch):
    monkeypatch.setattr(fetch_session, "MAX_EPOCH", 2)
    session, epochs = FetchSession(), []
    for _ in range(5):
        epochs.append(session.request({("a", 0): 1}, max_wait_ms=1, max_bytes=1, partition_bytes=1).session_epoch)
        session.handle_response(0, 7)
    assert epochs == [0, 1, 2, 1, 2]


def test_other_errors_are_returned_to_the_caller():
    session = FetchSession()
    session.request({("a", 0): 1}, max_wait_ms=1, max_bytes=1, partition_bytes=1)
    assert session.handle_response(0, 7)
    assert session.handle_response(protocol.UnknownTopicOrPartitionError.errno, 0)
    assert session.request({("a", 0): 1}, max_wait_ms=1, max_bytes=1, partition_bytes=1).session_epoch == 0
