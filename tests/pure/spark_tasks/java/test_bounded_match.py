import pytest

from spark_tasks.java.bounded_match import matches
from spark_tasks.java.regex import compile_java


def test_a_match_is_one_of_the_whole_text():
    assert matches(compile_java("a+"), "aaa")
    assert not matches(compile_java("a+"), "aab")


def test_a_match_that_takes_too_long_ends():
    with pytest.raises(TimeoutError):
        matches(compile_java("(a|a)*[bc]"), "a" * 40)
