"""A task's lease of the host of Java plugins, which runs a part of a Python connector's chain."""

from __future__ import annotations

import pickle
from dataclasses import replace
from typing import Protocol

from spark_tasks.pipeline.java_chain import JavaFirstPipeline, JavaLastPipeline


class Lease(Protocol):
    """`token`: what executors show to the host."""

    token: str

    def folder(self) -> str:
        """The folder of the host's socket. Starts the host, or moves to a new one, if necessary. Raises RetriableError,
        ConnectError.
        """

    def close(self) -> None:
        """End what the host does for the task. Safe to call twice."""


class LeasedChain:
    """A task's pipeline of which the host runs a part. If the task gets another host, later splits use that one."""

    def __init__(self, pipeline: JavaFirstPipeline | JavaLastPipeline, lease: Lease) -> None:
        self._pipeline = pipeline
        self._lease = lease

    def follow(self, job: bytes) -> bytes:
        """The pickled SinkJob or SourceJob with the host's present folder. Raises as `Lease.folder`."""
        folder = self._lease.folder()
        if folder == self._pipeline.java.folder:
            return job
        self._pipeline.java.folder = folder
        return pickle.dumps(replace(pickle.loads(job), pipeline=self._pipeline))

    def close(self) -> None:
        """End the lease."""
        self._lease.close()
