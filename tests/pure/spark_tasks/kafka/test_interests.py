"""Which tasks read a partition, and how partitions are divided into shares."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from spark_tasks.kafka.interests import MAX_SHARES, TASKS_OF_SHARE, Interest, Interests

Change = tuple[str, int, frozenset[int], str | None, bool]


def interest(partitions: Any, group: Hashable = None, *, lasting: bool = False) -> Interest:
    positions = {("t", number): 0 for number in partitions}
    return Interest(positions, "read_uncommitted", look=(lambda _: 0.0) if lasting else None, group=group)


def groups(sizes: dict[str, int]) -> Interests:
    """Each task has a partition of its own, numbered in the order of the tasks."""
    found, number = Interests(), 0
    for name, size in sizes.items():
        for _ in range(size):
            found.put(number, interest([number], name, lasting=True))
            number += 1
    return found


@given(st.lists(st.tuples(
    st.sampled_from(["put", "put", "arm", "remove"]), st.integers(0, 4), st.frozensets(st.integers(0, 5), max_size=3),
    st.sampled_from([None, "a", "b"]), st.booleans())))  # fmt: skip
def test_readers_and_shares_are_those_of_a_search_through_all_interests(changes: list[Change]) -> None:
    interests = Interests()
    partitions: dict[int, frozenset[int]] = {}
    group_of: dict[int, str | None] = {}
    armed: set[int] = set()
    for what, key, numbers, group, lasting in changes:
        if what == "put":
            wanted = group or group_of.get(key)
            changed = (partitions.get(key), group_of.get(key)) != (numbers, wanted)
            assert interests.put(key, interest(numbers, group, lasting=lasting)) == changed
            partitions[key], group_of[key] = numbers, wanted
            armed.discard(key)
        elif what == "arm" and key in partitions:
            interests.armed.add(key)
            armed.add(key)
        elif what == "remove":
            interests.remove(key)
            for known in (partitions, group_of):
                known.pop(key, None)
            armed.discard(key)
    read = {number for numbers in partitions.values() for number in numbers}
    assert set(interests.partitions) == {("t", number) for number in read}
    assert {key for key, _ in interests.armed_readers(None)} == armed
    for number in range(6):
        readers = [key for key, _ in interests.armed_readers([("t", number), ("t", number)])]
        assert sorted(readers) == sorted(key for key in armed if number in partitions[key])  # type: ignore[type-var]
    assert interests.shares() == (1, {("t", number): 0 for number in read})


def test_a_woken_task_stays_armed_only_if_its_interest_lasts() -> None:
    interests = Interests()
    interests.put("once", interest([0]))
    interests.put("lasting", interest([0], lasting=True))
    interests.put("replaced", interest([0]))
    interests.armed |= {"once", "lasting", "replaced"}
    readers = interests.armed_readers([("t", 0)])
    interests.put("replaced", interest([0]))
    interests.armed.add("replaced")
    assert len(interests.still_armed(readers)) == 2, "the third has other positions now"
    assert interests.armed == {"lasting", "replaced"}


def test_a_task_is_removed_although_its_positions_have_got_another_partition() -> None:
    interests, positions = Interests(), {("t", 0): 0}
    interests.put("task", Interest(positions, "read_uncommitted"))
    positions["t", 1] = 0
    interests.remove("task")
    assert not interests.partitions


def sizes(shares: tuple[int, dict[Any, int]]) -> list[int]:
    """How many partitions each share has that has any."""
    return sorted(Counter(shares[1].values()).values())


def test_many_tasks_of_several_groups_have_shares_of_equal_size_and_a_group_is_in_one() -> None:
    number, share_of = groups({f"g{at}": 10 for at in range(50)}).shares()
    assert (number, sizes((number, share_of))) == (MAX_SHARES, [100] * MAX_SHARES)
    assert all(len({share_of["t", group * 10 + task] for task in range(10)}) == 1 for group in range(50))


def test_few_tasks_a_single_group_and_tasks_without_one_are_not_divided() -> None:
    assert groups({"a": TASKS_OF_SHARE, "b": TASKS_OF_SHARE - 1}).shares()[0] == 1
    assert groups({"a": TASKS_OF_SHARE, "b": TASKS_OF_SHARE}).shares()[0] == 2
    assert groups({"a": 10 * TASKS_OF_SHARE}).shares()[0] == 1
    alone = Interests()
    for key in range(10 * TASKS_OF_SHARE):
        alone.put(key, interest([key]))
    assert alone.shares()[0] == 1


def test_tasks_without_a_group_have_a_share_of_their_own_beside_those_of_groups() -> None:
    interests = groups({"a": TASKS_OF_SHARE, "b": TASKS_OF_SHARE})
    interests.put("alone", interest([1000]))
    number, share_of = interests.shares()
    assert number == 2
    assert {share_of["t", 1000], share_of["t", 0], share_of["t", TASKS_OF_SHARE]} == {0, 1, 2}


def test_a_task_or_a_group_that_leaves_or_comes_moves_no_others() -> None:
    interests = groups({f"g{at}": 10 for at in range(25)})
    before = interests.shares()[1]
    for key in range(15):  # a whole group, and half of another
        interests.remove(key)
        number, share_of = interests.shares()
        assert number == MAX_SHARES
        assert share_of.items() <= before.items()
    for key in range(1000, 1010):
        interests.put(key, interest([key], "new", lasting=True))
    share_of = interests.shares()[1]
    assert {tp: share for tp, share in share_of.items() if tp[1] < 1000}.items() <= before.items()
    assert len({share for tp, share in share_of.items() if tp[1] >= 1000}) == 1


def test_shares_that_are_added_for_new_groups_are_filled_first() -> None:
    interests = Interests()
    for key in range(500):
        interests.put(key, interest([key], key // 10, lasting=True))
        shares = interests.shares()
    assert (shares[0], sizes(shares)) == (MAX_SHARES, [100] * MAX_SHARES)


def test_shares_have_equal_sizes_although_all_groups_began_with_few_tasks() -> None:
    interests = Interests()
    for key in range(500):
        interests.put(key, interest([key], key % 50, lasting=True))
        shares = interests.shares()
    assert (shares[0], sizes(shares)) == (MAX_SHARES, [100] * MAX_SHARES)
