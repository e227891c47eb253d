"""The executor's side: a process that joins its worker and runs splits, one at a time, until the worker ends it."""

from __future__ import annotations

import faulthandler
import os
import sys

from spark_tasks.process.oom_score import raise_oom_score
from spark_tasks.process.zombies import zombies
from spark_tasks.spark.executor import is_dedicated, pickled_outcomes, run_split
from spark_tasks.spark.residents import wire
from spark_tasks.spark.residents.connections import joined
from spark_tasks.spark.residents.leftovers import Leftovers
from spark_tasks.spark.residents.stack_file import StackFile
from spark_tasks.spark.residents.watchdog import start_watchdog
from spark_tasks.spark.residents.wire import Ticket


def serve(ticket: Ticket) -> None:
    """Joins the worker, and runs splits until it ends this process or closes the connection. Raises OSError."""
    from spark_tasks.spark.residents.set_up import SetUp  # noqa: PLC0415 - heeler's worker does not need numpy

    if start_watchdog():
        raise_oom_score(os.getpid())
    with StackFile(ticket) as stacks, joined(ticket) as (work, _):
        leftovers, set_up = Leftovers(), SetUp()
        while split := wire.receive(work):
            if split.startswith(wire.OTHER):
                if changes := set_up.changes(with_umask=True):
                    wire.send(work, wire.before_answer(changes))  # it stays reserved for the previous connector
                    continue
                if not leftovers.end():
                    wire.send(work, b"")  # the worker replaces this process
                    continue
                split = split.removeprefix(wire.OTHER)
            stacks.renew()
            if ticket.slow_s:
                faulthandler.dump_traceback_later(ticket.slow_s, file=sys.stderr)
            try:
                answer = pickled_outcomes([run_split(split)], ticket.max_result_bytes)
            finally:
                if ticket.slow_s:
                    faulthandler.cancel_dump_traceback_later()
            wire.send(work, answer, before=wire.before_answer(set_up.changes()))
            zombies.reap()
        if is_dedicated() or not leftovers.end() or set_up.changes(with_umask=True):
            os._exit(0)  # otherwise Spark would use it for jobs of other plugins
