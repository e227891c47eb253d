"""The bad rows go, exactly they, and the others stay in their order; many of them cost little more than few."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from spark_tasks.pipeline.bisection import FailedPartError, good_parts


@st.composite
def batches(draw):
    size = draw(st.integers(0, 3000))
    bad = draw(st.sets(st.integers(0, max(size - 1, 0)), max_size=40)) if size else set()
    return size, bad


class Stage:
    """Fails where a bad row is in the stretch. `tells`: for each bad row whether it says which it is; `guesses`: which
    row it says that it may be, of all rows.
    """

    def __init__(self, bad, tells, guesses=lambda _: None):
        self.bad, self.tells, self.guesses = sorted(bad), tells, guesses
        self.tries, self.rows = 0, 0

    def __call__(self, begin, end):
        assert begin < end
        self.tries, self.rows = self.tries + 1, self.rows + end - begin
        found = [row for row in self.bad if begin <= row < end]
        if found:
            guess = self.guesses(found[0])
            guess = None if guess is None else guess - begin
            raise FailedPartError(found[0] - begin if found[0] in self.tells else None, found[0], guess)
        return range(begin, end)


def outcome(size, stage, spacing=None):
    refused = []
    parts = list(good_parts(size, stage, lambda row, error: refused.append((row, str(error))), spacing))
    return [row for part in parts for row in part], refused


@given(batches(), st.none() | st.integers(1, 5000), st.data())
def test_exactly_the_bad_rows_go(batch, spacing, data):
    size, bad = batch
    tells = data.draw(st.sets(st.sampled_from(sorted(bad)))) if bad else set()
    wrong = data.draw(st.dictionaries(st.sampled_from(sorted(bad)), st.none() | st.integers(-9, size))) if bad else {}
    good, refused = outcome(size, Stage(bad, tells, lambda row: wrong.get(row, row)), spacing)
    assert good == [row for row in range(size) if row not in bad]
    assert refused == [(row, str(row)) for row in sorted(bad)], "in order, each with its own error"


@given(st.integers(1, 500), st.integers(2, 30))
def test_a_stage_that_fails_only_on_large_stretches_loses_nothing(size, most):
    def attempt(begin, end):
        if end - begin > most:
            raise FailedPartError(None)
        return range(begin, end)

    assert outcome(size, attempt) == (list(range(size)), [])


def test_bad_rows_cost_little():
    clean = Stage((), ())
    outcome(100_000, clean)
    assert (clean.tries, clean.rows) == (1, 100_000)
    one = Stage({70_000}, {70_000})
    outcome(100_000, one)
    assert one.tries <= 3
    assert one.rows <= 200_000
    many = Stage(range(500, 100_000, 1000), range(500, 100_000, 1000))
    outcome(100_000, many)
    assert many.rows <= 4 * 100_000
    silent = Stage(range(500, 100_000, 1000), ())
    outcome(100_000, silent)
    assert silent.rows <= 4 * 100_000
    expected = Stage(range(500, 100_000, 1000), ())
    outcome(100_000, expected, 1000)
    assert expected.rows <= 2 * 100_000
    right = Stage(range(500, 100_000, 1000), (), lambda row: row)
    outcome(100_000, right, 1000)
    assert right.rows <= 1.5 * 100_000
    assert right.tries <= 7 * 100
    assert expected.tries >= 2 * right.tries


@given(st.integers(0, 999), st.integers(-1, 1001))
def test_wrong_guesses_are_soon_not_believed(bad, guess):
    stage, silent = Stage({bad}, (), lambda _: guess), Stage({bad}, ())
    assert outcome(1000, stage) == outcome(1000, silent)
    assert stage.tries <= silent.tries + 3


def test_an_error_of_another_kind_comes_out():
    refused = []

    def attempt(begin, end):
        raise ConnectionRefusedError(end - begin)

    try:
        list(good_parts(10, attempt, lambda row, error: refused.append((row, error))))
    except ConnectionRefusedError:
        assert refused == []
    else:
        raise AssertionError
