"""Keys by murmur2, no key by sticky partitions. (The hash itself is tested against Java's in test_golden.)"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from spark_tasks.kafka.records.partitioner import Partitioner, rows_by_partition


def raw(keys, size=100):
    return pa.record_batch(
        {
            "key": pa.array(keys, pa.binary()),
            "value": pa.array([b"x" * size] * len(keys), pa.binary()),
        }
    )


def test_a_key_has_the_same_partition_in_sliced_batches():
    keys = [b"key-%d" % (i % 20) for i in range(200)]
    batch = raw(keys)
    assigned = Partitioner(8, seed=1).assign(batch)
    assert len({(key, number) for key, number in zip(keys, assigned, strict=True)}) == 20
    assert Partitioner(8, seed=2).assign(batch[50:]).tolist() == assigned[50:].tolist()


def test_records_without_keys_fill_one_partition_after_another():
    partitioner = Partitioner(6, seed=3, sticky_bytes=1100)
    first = partitioner.assign(raw([None] * 25)).tolist()
    runs = np.flatnonzero(np.diff(first)) + 1
    assert set(runs) <= {10, 20}
    assert len(set(first)) > 1
    # The next call goes on where this one stopped: five more records belong to the third run.
    assert partitioner.assign(raw([None] * 5)).tolist() == [first[-1]] * 5


def test_all_available_partitions_get_their_share_and_no_other():
    partitioner = Partitioner(5, seed=4, sticky_bytes=1)
    counts = np.bincount(partitioner.assign(raw([None] * 4000, 1), available=np.array([0, 2, 3])), minlength=5)
    assert counts[1] == counts[4] == 0
    assert min(counts[[0, 2, 3]]) > 1000


def test_given_partitions_are_kept():
    chosen = np.array([4, -1, 0], np.int32)
    assigned = Partitioner(5, seed=5).assign(raw([b"k"] * 3), chosen)
    assert assigned[0] == 4
    assert assigned[2] == 0
    assert assigned[1] == Partitioner(5).assign(raw([b"k"]))[0]


def test_rows_keep_their_order_within_a_partition():
    groups = dict(rows_by_partition(np.array([2, 0, 2, 1, 0], np.int32)))
    assert {number: rows.tolist() for number, rows in groups.items()} == {0: [1, 4], 1: [3], 2: [0, 2]}
    assert rows_by_partition(np.array([], np.int32)) == []
