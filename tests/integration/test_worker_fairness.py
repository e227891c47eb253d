"""A worker whose plugins wait, hang and die: each affects only itself."""

from __future__ import annotations

import os
import signal
from concurrent.futures import ThreadPoolExecutor

import psutil
import pytest

from spark_tasks.spark.residents.settings import default_running
from tests.rigs.connector_states import states_of
from tests.rigs.support import wait_until
from tests.rigs.workers import SOON_S, wait_gone

pytestmark = pytest.mark.integration

TICKS = {"connector.class": "TicksSource", "tasks.max": "1"}
SOME = 15  # records, at ten a second


def ticking(rig, name):
    topic = rig.kafka.create(name)
    return rig.create(topic, {**TICKS, "topic": topic}, ["RUNNING", "RUNNING"])


def advance(rig, names):
    """Each of them continues from where it is."""
    for name, end in [(name, rig.kafka.end(name)) for name in names]:
        rig.wait_records(name, end + SOME)


def waiting(rig, name, seconds):
    """A source whose reader waits; answers the file that has the processes of its reads."""
    sign = rig.folder / f"{name}.reads"
    rig.create(name, {**TICKS, "topic": name, "seconds": str(seconds), "sign": str(sign)})
    return sign


def reads(sign):
    return sign.read_text().split() if sign.exists() else []


def test_sources_that_sleep_for_an_hour_or_poll_for_long_block_no_others(rig, topic_name):
    signs = {name: waiting(rig, name, 3600) for name in (f"{topic_name}-asleep-{n}" for n in range(6))}
    ticks = [ticking(rig, f"{topic_name}-tick-{n}") for n in range(4)]
    held = [wait_until(lambda s=sign: reads(s), SOON_S, "a source to sleep") for sign in signs.values()]
    advance(rig, ticks)
    sleepers = [psutil.Process(int(pid)) for (pid,) in held]
    for name in signs:
        rig.delete(name)
    wait_gone(sleepers)  # and all they held is free
    polls = [waiting(rig, f"{topic_name}-poll-{n}", 20) for n in range(5)]
    for sign in polls:
        wait_until(lambda s=sign: reads(s), SOON_S, "a long poll to begin")
    ended = [reads(sign).count("end") for sign in polls]
    advance(rig, ticks)
    assert [reads(sign).count("end") for sign in polls] != [n + 1 for n in ended], "nobody waited for all polls"
    for name in ticks:
        assert states_of(rig.rest, name) == ["RUNNING", "RUNNING"]


def test_endless_loops_keep_no_others_from_running(rig, topic_name):
    """As many splits as may use the CPU at the same time."""
    ticks = [ticking(rig, f"{topic_name}-tick-{n}") for n in range(2)]
    loops = [f"{topic_name}-loop-{n}" for n in range(default_running())]
    signs = {name: waiting(rig, name, -1) for name in loops}
    held = [wait_until(lambda s=sign: reads(s), SOON_S, "a loop to begin") for sign in signs.values()]
    advance(rig, ticks)
    loopers = [psutil.Process(int(pid)) for (pid,) in held]
    for name in loops:
        rig.delete(name)
    wait_gone(loopers)


def test_a_source_without_news_that_holds_the_interpreter_holds_only_its_own_process(rig, topic_name):
    """`read` of a simple reader is called again and again while there is nothing new, and sees new data first."""
    tick = ticking(rig, f"{topic_name}-tick")
    name, sign = f"{topic_name}-holds", rig.folder / "holds.reads"
    rig.create(name, {"connector.class": "HoldingSource", "tasks.max": "1", "topic": name, "sign": str(sign)})
    holder = psutil.Process(int(wait_until(lambda: reads(sign)[2:], SOON_S, "the read that holds the GIL")[0]))
    assert holder.pid != rig.process.pid
    advance(rig, [tick])
    rig.delete(name)
    wait_gone([holder])


@pytest.mark.parametrize("plan", ["loop", "hold"])
def test_a_reader_that_hangs_between_batches_hangs_only_in_its_own_process(rig, topic_name, plan):
    """Other tasks and REST go on, and it ends with its connector."""
    tick = ticking(rig, f"{topic_name}-tick")
    name, sign = f"{topic_name}-hangs", rig.folder / "hangs.plans"
    config = {**TICKS, "topic": rig.kafka.create(name), "plan": plan, "sign": str(sign),
              "task.progress.timeout.ms": "2000"}
    rig.create(name, config, ["RUNNING", "RUNNING"])
    hanging = psutil.Process(int(wait_until(lambda: [text for text in reads(sign) if text != "end"], SOON_S,
                                            "the plan that hangs")[0]))
    assert hanging.pid != rig.process.pid
    advance(rig, [tick])
    wait_until(lambda: "in latestOffset" in str(rig.call("GET", f"/connectors/{name}/story")), SOON_S, "the stack")
    rig.delete(name)
    wait_gone([hanging])
    advance(rig, [tick])


def hanging(rig, name, at, hang):
    """The configuration of a connector that hangs, and the file that has its process."""
    sign = rig.folder / f"{at}.calls"
    return {"connector.class": "StuckSource", "tasks.max": "1", "topic": name, "at": at, "hang": hang,
            "calls": str(sign), "task.progress.timeout.ms": "2000"}, sign


def process_in(rig, sign):
    found = psutil.Process(int(wait_until(lambda: reads(sign), SOON_S, "the call that hangs")[0]))
    assert found.pid != rig.process.pid
    return found


@pytest.mark.parametrize(("at", "hang"), [("start", "loop"), ("start", "hold"), ("task_configs", "hold")])
def test_a_connector_that_hangs_hangs_only_in_its_own_process(rig, topic_name, at, hang):
    """Other tasks and REST go on, and it ends with its connector."""
    tick = ticking(rig, f"{topic_name}-tick")
    name = rig.kafka.create(f"{topic_name}-hangs")
    config, sign = hanging(rig, name, at, hang)
    rig.create(name, config)
    holder = process_in(rig, sign)
    advance(rig, [tick])
    wait_until(lambda: f"{at} has not returned for" in str(story := rig.call("GET", f"/connectors/{name}/story"))
               and "in hang" in str(story), SOON_S, "the stack")
    rig.delete(name)
    wait_gone([holder])
    advance(rig, [tick])


def test_a_connector_whose_process_is_killed_starts_in_another_one(rig, topic_name):
    name = rig.kafka.create(topic_name)
    config, sign = hanging(rig, name, "start", "")
    rig.create(name, config, ["RUNNING", "RUNNING"])
    process_in(rig, sign).kill()
    wait_until(lambda: len(set(reads(sign))) == 2, SOON_S, "the next start")
    assert states_of(rig.rest, name) == ["RUNNING", "RUNNING"]


def test_a_connector_that_hangs_in_stop_is_killed(rig, topic_name):
    name = rig.kafka.create(f"{topic_name}-hangs")
    config, sign = hanging(rig, name, "stop", "hold")
    rig.create(name, config, ["RUNNING", "RUNNING"])
    rig.call("DELETE", f"/connectors/{name}")
    wait_gone([process_in(rig, sign)])


def test_a_validation_that_hangs_hangs_only_in_its_own_process(rig, topic_name):
    """The request ends when its process does; after 88 s the worker ends it itself."""
    tick = ticking(rig, f"{topic_name}-tick")
    config, sign = hanging(rig, topic_name, "validate", "hold")
    with ThreadPoolExecutor(1) as requests:
        refused = requests.submit(rig.refused, "PUT", f"/connectors/{topic_name}-hangs/config", config)
        holder = process_in(rig, sign)
        advance(rig, [tick])
        holder.kill()
        error = refused.result(SOON_S)
    assert error.status == 500
    assert "was killed by signal 9" in str(error)


def test_altering_offsets_that_hangs_hangs_only_in_its_own_process(rig, topic_name):
    tick, name = ticking(rig, f"{topic_name}-tick"), rig.kafka.create(f"{topic_name}-hangs")
    config, sign = hanging(rig, name, "alter_offsets", "hold")
    rig.create(name, config, ["RUNNING", "RUNNING"])
    rig.call("PUT", f"/connectors/{name}/stop")
    rig.wait_states(name, ["STOPPED"])
    with ThreadPoolExecutor(1) as requests:
        refused = requests.submit(rig.refused, "DELETE", f"/connectors/{name}/offsets")
        holder = process_in(rig, sign)
        advance(rig, [tick])
        holder.kill()
        assert "was killed by signal 9" in str(refused.result(SOON_S))


def test_connectors_that_compute_do_not_delay_one_that_does_not(rig, topic_name):
    """Three times as many as may use the CPU at the same time. In turns, each would read as often as that one."""
    sign = rig.folder / "reads"
    topic = rig.kafka.create(topic_name)
    rig.create(topic, {**TICKS, "topic": topic, "sign": str(sign)}, ["RUNNING", "RUNNING"])
    signs = [rig.folder / f"{n}.reads" for n in range(3 * default_running())]
    for n, reads_of in enumerate(signs):
        name = f"{topic_name}-computes-{n}"
        rig.create(name, {**TICKS, "topic": name, "compute": "1", "sign": str(reads_of)})
    for reads_of in signs:
        wait_until(lambda s=reads_of: "end" in reads(s), SOON_S, "a computation")
    before, healthy = [reads(s).count("end") for s in signs], reads(sign).count("end")
    wait_until(lambda: reads(sign).count("end") >= healthy + SOME, 2 * SOON_S, "reads beside computations")
    ended = [reads(s).count("end") - n for s, n in zip(signs, before, strict=True)]
    assert min(ended) < SOME // 3, ended


@pytest.mark.parametrize("by", [signal.SIGKILL, signal.SIGSTOP])
def test_a_task_continues_when_its_executor_process_is_killed_or_suspended(rig, topic_name, by):
    """And no record is missing."""
    sign = rig.folder / "reads"
    topic = rig.kafka.create(topic_name)
    rig.create(topic, {**TICKS, "topic": topic, "sign": str(sign)}, ["RUNNING", "RUNNING"])
    for _ in range(3):
        rig.wait_records(topic, rig.kafka.end(topic) + SOME)
        pid = int([text for text in reads(sign) if text != "end"][-1])
        os.kill(pid, by)
        wait_gone([psutil.Process(pid)] if psutil.pid_exists(pid) else [])
    rig.wait_records(topic, rig.kafka.end(topic) + SOME)
    numbers = sorted({int(value.removeprefix("Struct{value=").rstrip("}")) for value in rig.kafka.values(topic)})
    assert numbers == list(range(numbers[0], numbers[-1] + 1))
    assert states_of(rig.rest, topic) == ["RUNNING", "RUNNING"]
