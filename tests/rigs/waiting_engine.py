"""An engine of executors at whose other end the test is."""

from __future__ import annotations

from concurrent.futures import Future


class WaitingEngine:
    """What was submitted waits for the test."""

    def __init__(self):
        self.splits, self.batches = [], []

    def submit(self, _task, splits):
        self.splits += splits
        self.batches.append(Future())
        return self.batches[-1]

    def own_process(self, _task):
        return None

    def cancel(self, batch):
        batch.cancel()
