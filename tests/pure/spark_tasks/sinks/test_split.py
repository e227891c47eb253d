"""What a split of a sink reports."""

import pytest

from spark_tasks.dead_letters.refusals import Refused
from spark_tasks.sinks.split import SinkResult


@pytest.mark.parametrize(("records", "by_phase", "uses"), [
    (0, {}, False), (2, {}, True), (2, {"convert": 2}, False), (2, {"convert": 1}, True), (2, {"transform": 2}, True),
])
def test_a_topic_is_used_once_a_record_can_be_converted(records, by_phase, uses):
    """As in Kafka Connect, even if a transform or the target then refuses the record."""
    result = SinkResult("t", 0, 8, records, refused=Refused(sum(by_phase.values()), by_phase=by_phase))
    assert result.uses_topic is uses
