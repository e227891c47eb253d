"""Timers of the loop that serves connections: cancelled timers are removed and never run."""

from __future__ import annotations

import logging
import re
import time
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from heeler.worker.logs import ConnectFormatter, log_context
from spark_tasks.kafka.connections import Loop

FAR_S = 3600.0


@given(st.lists(st.tuples(st.integers(-5, 5), st.sampled_from(["", "cancelled", "put off"])), max_size=30))
def test_timers_run_in_order_unless_they_are_cancelled_or_put_off(timers: list[tuple[int, str]]) -> None:
    loop, ran, now = Loop(), [], time.monotonic()
    try:
        made: list[tuple[Any, str]] = []
        for number, (due, fate) in enumerate(timers):
            task = loop.call_at(now + due * FAR_S, lambda number=number: ran.append(number))
            made.append((task, fate))
        for task, fate in made:
            if fate == "cancelled":
                loop.cancel(task)
                loop.cancel(task)
            elif fate:
                loop.reschedule(now + FAR_S, task)
        loop.poll(timeout_ms=0)
        due = [number for number, (at, fate) in enumerate(timers) if at <= 0 and not fate]
        assert sorted(ran) == due
        assert [timers[number][0] for number in ran] == sorted(timers[number][0] for number in due)
        for task, fate in made:
            if fate == "put off":
                loop.reschedule(now, task)
        ran.clear()
        loop.poll(timeout_ms=0)
        assert sorted(ran) == [number for number, (_, fate) in enumerate(timers) if fate == "put off"]
    finally:
        loop.close()


def test_cancelled_timers_are_removed() -> None:
    loop = Loop()
    try:
        kept = loop.call_later(FAR_S, lambda: None)
        for _ in range(10_000):
            loop.cancel(loop.call_later(2 * FAR_S, lambda: None))
        scheduled = re.search(r"scheduled=(\d+)", str(loop))
        assert scheduled is not None
        assert int(scheduled[1]) < 200
        loop.cancel(kept)
    finally:
        loop.close()


def test_log_lines_of_the_loop_name_the_task_it_works_for() -> None:
    loop, lines = Loop(), []
    formatter, log = ConnectFormatter(), logging.getLogger("kafka.coordinator")

    class Collect(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.append(re.sub(r"^\[[^]]*\] | \(.*", "", formatter.format(record)))

    async def work(name: str) -> None:
        log.error("%s", name)
        loop.call_later(0.001, lambda: log.error("%s, later", name))
        await loop.sleep(0.01)
        log.error("%s, at last", name)

    handler = Collect()
    log.addHandler(handler)
    loop.start()
    try:
        for task in (0, 1):
            with log_context("orders", task):
                loop.run(work, f"task {task}")
        loop.run(work, "none")
    finally:
        loop.stop()
        loop.close()
        log.removeHandler(handler)
    expected = (("[orders|task-0] ", "task 0"), ("[orders|task-1] ", "task 1"), ("", "none"))
    assert lines == [f"ERROR {about}{name}{when}" for about, name in expected for when in ("", ", later", ", at last")]
