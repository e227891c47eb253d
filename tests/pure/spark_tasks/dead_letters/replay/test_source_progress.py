"""The progress of a source's replays is one of the connector's source offsets."""

from __future__ import annotations

import json
from typing import Any

import pytest

from spark_tasks.dead_letters.replay.replayed_offsets import ReplayedOffsets
from spark_tasks.dead_letters.replay.source_progress import check_progress, is_progress, progress_in, progress_offset
from spark_tasks.errors import ConfigError

PLACE = {"heeler.dead.letters": "dead", "partition": 2}


@pytest.mark.parametrize("done", [ReplayedOffsets(7), ReplayedOffsets(7, ((9, 12), (20, 21)))])
def test_progress_is_read_back_from_the_offsets(done: ReplayedOffsets) -> None:
    partition, offset = progress_offset(("dead", 2), done)
    assert partition == PLACE
    assert is_progress(partition)
    check_progress(partition, offset)
    stored = json.loads(json.dumps(offset))
    found = progress_in([({"file": "a"}, {"at": 1}), (partition, stored)])
    assert ReplayedOffsets.of(*found["dead", 2]) == done
    assert list(found) == [("dead", 2)]


@pytest.mark.parametrize("offset", [None, {}, {"offset": "7"}, {"offset": -1}, {"offset": True}, {"offset": 2**63}])
def test_offsets_that_are_no_progress_are_ignored(offset: Any) -> None:
    assert progress_in([(PLACE, offset)]) == {}


def test_ranges_that_are_no_text_are_ignored() -> None:
    assert progress_in([(PLACE, {"offset": 7, "replayed": 5})]) == {("dead", 2): (7, "")}


@pytest.mark.parametrize(("partition", "offset", "words"), [
    ({"heeler.dead.letters": "dead"}, None, "must have heeler.dead.letters"),
    ({**PLACE, "x": 1}, None, "must have heeler.dead.letters"), ({**PLACE, "partition": "2"}, None, "must have"),
    ({**PLACE, "heeler.dead.letters": 1}, None, "must have"), (PLACE, {}, "must be null, or have offset"),
    (PLACE, {"offset": -1}, "must be null"), (PLACE, {"offset": "1"}, "must be null"),
    (PLACE, {"offset": 1, "more": 2}, "must be null"),
])
def test_an_invalid_change_of_the_progress_is_refused(partition: Any, offset: Any, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        check_progress(partition, offset)
