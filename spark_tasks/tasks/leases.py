"""A Python connector's use of the Java plugin host, which runs the Java part of its chain."""

from __future__ import annotations

import pickle
from dataclasses import replace
from typing import Protocol

from spark_tasks.pipeline.java_chain import JavaFirstPipeline, JavaLastPipeline


class Lease(Protocol):
    """A task's right to use the host. `token`: with which executors authenticate to the host."""

    token: str

    def folder(self) -> str:
        """Returns the folder with the host's socket. Starts the host if necessary; if the task's host has ended, it
        is another folder than before. Raises RetriableError, ConnectError.
        """

    def close(self) -> None:
        """Ends the task's use of the host. May be called twice."""


class LeasedChain:
    """A task's pipeline that runs partly in the host. When the task gets a new host, later splits use that one."""

    def __init__(self, pipeline: JavaFirstPipeline | JavaLastPipeline, lease: Lease) -> None:
        self._pipeline = pipeline
        self._lease = lease

    def follow(self, job: bytes) -> bytes:
        """Returns `job`, a pickled SinkJob or SourceJob, with the folder of the current host. Raises the errors of
        `Lease.folder`.
        """
        folder = self._lease.folder()
        if folder == self._pipeline.java.folder:
            return job
        self._pipeline.java.folder = folder
        return pickle.dumps(replace(pickle.loads(job), pipeline=self._pipeline))

    def close(self) -> None:
        """Closes the lease."""
        self._lease.close()
