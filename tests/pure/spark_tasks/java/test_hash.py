"""The order of Java's HashMap, also for maps whose keys are data."""

from __future__ import annotations

import tracemalloc
import weakref

import pytest

from spark_tasks.java.hash import hash_order


def test_maps_of_many_different_keys_take_no_memory_for_good():
    maps = [[f"user-{(487 * each + k) % 10_000}" for k in range(500)] for each in range(31)]
    for keys in maps[:21]:  # until the hash codes of all keys are known
        hash_order(keys)
    tracemalloc.start()
    for keys in maps[21:]:
        hash_order(keys)
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert kept < 20_000


class Key(str):
    """A text to which there can be a weak reference."""

    __slots__ = ("__weakref__",)


def test_long_keys_are_not_kept():
    key = Key("x" * 5000)
    here = weakref.ref(key)
    assert hash_order([key]) == [key]
    del key
    assert here() is None


@pytest.mark.parametrize("keys", [[f"k{i}" for i in range(64)], [f"k{i}" for i in range(65)], ["a", "x" * 9000, "b"]])
def test_the_order_is_the_same_for_maps_of_all_sizes(keys):
    def place(key):
        value = 0
        for char in key:
            value = (value * 31 + ord(char)) % 2**32
        return (value ^ (value >> 16)) % buckets

    buckets = 16
    while len(keys) > buckets * 0.75:
        buckets *= 2
    assert hash_order(keys) == hash_order(keys) == sorted(keys, key=place)
