"""The scaler: what it measures, when, and what it requests from the herder."""

from __future__ import annotations

import queue
import threading

import pytest

from actors.instances.scaler import Scaled, Scaler
from actors.messages.events import Remark, TaskReconfigurationRequested
from tests.rigs.support import no_thread, wait_until

CONFIG = {"tasks.auto": "true", "tasks.max": "4", "tasks.auto.lag": "100", "tasks.auto.period.ms": "4000"}


class Rig:
    def __init__(self) -> None:
        self.now = 0.0
        self.lag: int | Exception = 0
        self.measured: queue.Queue[str] = queue.Queue()
        self.reported: list[object] = []
        self.scaler = Scaler(self.reported.append, self._measure, lambda _: 2, lambda: self.now)

    def _measure(self, name, config):
        assert config == CONFIG
        self.measured.put(name)
        if isinstance(self.lag, Exception):
            raise self.lag
        return self.lag, 8

    def pass_(self, seconds: float, watched) -> None:
        """A second after the other."""
        for _ in range(int(seconds)):
            self.now += 1
            self.scaler.check()
            wait_until(lambda: not watched.measuring, 10, "a measurement")


@pytest.fixture
def rig() -> Rig:
    return Rig()


def test_the_scaler_starts_with_the_current_tasks_and_scales_up_and_down(rig, caplog):
    caplog.set_level("INFO")
    watched = rig.scaler.watch("c", 7, CONFIG)
    assert watched.tasks == 2
    rig.lag = 1000
    rig.pass_(6, watched)
    assert watched.tasks == 4
    assert [type(message) for message in rig.reported] == [Remark, TaskReconfigurationRequested]
    assert rig.reported[0].what.startswith("Changing from 2 to 4 tasks: the lag is 1000 records in ")
    assert [vars(record)["heeler_about"] for record in caplog.records] == ["c"], "in GET /connectors/c/logs"
    assert rig.reported[1] == TaskReconfigurationRequested("c", 7)
    assert rig.scaler.figures() == {"c": Scaled(4, 1000)}
    rig.lag = 0
    rig.pass_(20, watched)
    assert watched.tasks == 1
    watched.ended = True
    assert rig.scaler.figures() == {}


def test_an_unreachable_kafka_changes_nothing(rig, caplog):
    watched = rig.scaler.watch("c", 7, CONFIG)
    rig.lag = ConnectionError("away")
    rig.pass_(8, watched)
    assert (watched.tasks, watched.lag, rig.reported) == (2, None, [])
    assert "Could not measure the lag" in caplog.text
    assert {vars(record)["heeler_about"] for record in caplog.records} == {"c"}
    rig.lag = 1000
    rig.pass_(8, watched)
    assert watched.tasks == 4


def test_a_fixed_number_of_tasks_is_not_measured(rig):
    assert rig.scaler.watch("c", 7, {"tasks.max": "4"}) is None
    rig.scaler.check()
    assert rig.measured.empty()


@pytest.mark.parametrize("config", [CONFIG, {"tasks.max": "4"}])
def test_an_abandoned_instance_is_no_longer_measured(rig, config):
    """Its plugin hangs, so it cannot say that it has ended; another instance runs in its place."""
    abandoned = rig.scaler.watch("c", 7, CONFIG)
    watched = rig.scaler.watch("c", 8, config)
    rig.lag = 1000
    rig.pass_(6, watched or abandoned)
    assert {getattr(message, "epoch", 8) for message in rig.reported} == ({8} if watched else set())


def test_an_abandoned_instance_does_not_end_the_watch_of_its_successor(rig):
    """Its start() hung, and returns when the other instance is being watched."""
    successor = rig.scaler.watch("c", 8, CONFIG)
    assert rig.scaler.watch("c", 7, CONFIG) is None
    assert not successor.ended
    assert rig.scaler.figures() == {"c": Scaled(2, None)}


def test_what_is_abandoned_is_not_measured_even_if_no_other_instance_follows(rig):
    abandoned, other = rig.scaler.watch("c", 7, CONFIG), rig.scaler.watch("d", 8, CONFIG)
    rig.scaler.abandon(7)
    assert (abandoned.ended, other.ended) == (True, False)
    assert list(rig.scaler.figures()) == ["d"]


def test_a_measurement_whose_thread_could_not_be_started_is_repeated(rig, monkeypatch):
    watched = rig.scaler.watch("c", 7, CONFIG)
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", no_thread)
        rig.scaler.check()
    rig.pass_(3, watched)
    assert watched.lag == 0
