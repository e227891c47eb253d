"""The writer of a sink task, which commits its batches (see PluginObject). Executors write them with copies of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from pyspark.sql.datasource import DataSourceWriter

from spark_tasks.plugin_processes.plugin_object import Maker, Owner, PluginObject
from spark_tasks.plugins.api import Options, SinkConnector
from spark_tasks.plugins.third_party import is_third_party
from spark_tasks.task import PluginCall, ResumeFrom, TaskContext
from spark_tasks.tasks.data_sources import data_source_of, pickled, writer_of

_METHODS: Final = frozenset({"commit", "abort", "resume_from"})
_DOING_NOTHING: Final = (DataSourceWriter.commit, DataSourceWriter.abort)


@dataclass(frozen=True, slots=True)
class WriterFacts:
    """`pickled`: the writer as executors get it; `defines`: which of _METHODS do something."""

    pickled: bytes
    defines: frozenset[str]


class TaskWriter:
    """`kill`, `stop_opening` and `calls` may be called on any thread, the others on one. Methods raise what the plugin
    raises, and a RetriableError if the writer's process ends; a new writer then continues.
    """

    def __init__(self, context: TaskContext, connector: type[SinkConnector]) -> None:
        self._writer = PluginObject(
            Owner.of(context), Maker.of(partial(_writer_of, connector, dict(context.config))))
        self._apart = is_third_party(connector)
        self._defines: frozenset[str] = frozenset()
        self.kill, self.stop_opening, self.end = self._writer.kill, self._writer.stop_opening, self._writer.end

    def open(self) -> bytes:
        """Creates the writer. Returns it as executors get it."""
        if not self._apart:
            self._writer.open_here()
        facts: WriterFacts = self._writer.call("facts")
        self._defines = facts.defines
        if not self._defines and not self._writer.is_here:
            self._writer.end()  # only executors need it
        return facts.pickled

    @property
    def commits_nothing(self) -> bool:
        """Whether the plugin does nothing when a batch is committed or aborted."""
        return not self._defines & {"commit", "abort"}

    @property
    def resume_from(self) -> ResumeFrom | None:
        """That of a ResumableWriter, otherwise None."""
        return partial(self._writer.call, "resume_from") if "resume_from" in self._defines else None

    def commit(self, messages: Sequence[Any]) -> None:
        """Commits a batch, of whose splits these are the messages."""
        if "commit" in self._defines:
            self._writer.call("commit", messages)

    def abort(self, messages: Sequence[Any]) -> None:
        """Aborts a batch."""
        if "abort" in self._defines and self._writer.exists:
            self._writer.call("abort", messages)

    def calls(self) -> list[PluginCall]:
        """The call in progress in the writer's process, if there is one. Takes seconds."""
        return self._writer.calls()


class _Writer:
    def __init__(self, writer: Any) -> None:
        self._writer = writer

    def facts(self) -> WriterFacts:
        """Raises ConnectError if the writer cannot be pickled."""
        methods = {name: getattr(self._writer, name, None) for name in _METHODS}
        defines = {name for name, method in methods.items()
                   if method is not None and getattr(method, "__func__", None) not in _DOING_NOTHING}
        return WriterFacts(pickled(self._writer), frozenset(defines))

    def commit(self, messages: Sequence[Any]) -> None:
        self._writer.commit(messages)

    def abort(self, messages: Sequence[Any]) -> None:
        self._writer.abort(messages)

    def resume_from(self, topic: str, partition: int) -> int | None:
        offset: int | None = self._writer.resume_from(topic, partition)
        return offset


def _writer_of(connector: type[SinkConnector], config: Options) -> _Writer:
    return _Writer(writer_of(data_source_of(connector, config)))
