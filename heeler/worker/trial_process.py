"""A trial of a connector's configuration (POST /connectors/try), in a process of its own, so that everything that a
plugin does there ends with the trial, processes included. On Linux, its parent is a reaper, which also finds those that
have left the process group; elsewhere, those keep running.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import IO, Any, Final, NoReturn

from actors.errors import BadRequestError, ConflictError
from spark_tasks.config.auto_tasks import stored
from spark_tasks.config.masking import passwords, process_secrets
from spark_tasks.errors import ConnectError, plugin_code
from spark_tasks.futures import ended
from spark_tasks.plugins.config_providers import ConfigProvider, ConfigTransformer, has_placeholder
from spark_tasks.process.bounded_read import TooLongError, read_bounded
from spark_tasks.process.close_on_fork import close_on_fork
from spark_tasks.process.descendants import kill_descendants
from spark_tasks.process.oom_score import raise_oom_score
from spark_tasks.process.reaper import Reaper
from storage.daemon_pool import DaemonPool

LONGEST_S: Final = 60.0
LARGEST: Final = 16 << 20  # bytes of a result
MAX_CONCURRENT: Final = 2  # each is a process of some 200 MB
LOOK_UP_S: Final = 20.0  # for config providers; with LONGEST_S less than the 90 s after which clients give up
MAX_LOOK_UPS: Final = 16  # each may hang for good
_LAST_BYTES: Final = 2000  # of a plugin's output
_END_S: Final = 5.0  # for what a plugin has started
_LOOK_S: Final = 0.5  # how often a trial looks whether its worker still lives


class Trials:
    """The trials of one worker. Thread-safe."""

    def __init__(self, worker: Mapping[str, str], providers: Mapping[str, ConfigProvider],
                 max_concurrent: int = MAX_CONCURRENT, look_up_s: float = LOOK_UP_S) -> None:
        self._worker = dict(worker)
        self._transformer = ConfigTransformer(providers)
        self._max_concurrent = max_concurrent
        self._free = threading.BoundedSemaphore(max_concurrent)
        self._look_up_s = look_up_s
        self._look_ups = threading.BoundedSemaphore(MAX_LOOK_UPS)
        self._pool = DaemonPool(MAX_LOOK_UPS, "trial-config")

    def run(self, config: Mapping[str, str], records: Sequence[Any] | None, limit: int) -> Mapping[str, Any]:
        """`{"stages": [...]}` as `heeler try -o json` prints it.

        Raises BadRequestError for a configuration that cannot be tried, ConflictError while other trials run,
        ConnectError if it takes too long or its process ends, and what config providers raise.
        """
        if not self._free.acquire(blocking=False):
            raise ConflictError(f"{self._max_concurrent} other configurations are being tried on this worker; try "
                                "again later")
        try:
            return self._tried(config, records, limit)
        finally:
            self._free.release()

    def _tried(self, config: Mapping[str, str], records: Sequence[Any] | None, limit: int) -> Mapping[str, Any]:
        resolved = self._resolved(config)
        process_secrets().add(None, passwords(resolved))
        request = {"worker": self._worker, "config": dict(resolved), "records": records, "limit": limit}
        printed = _Printed()
        try:
            code, response = _run(json.dumps(request), printed.pipe)
        except subprocess.TimeoutExpired as error:
            raise ConnectError(f"The trial did not end within {LONGEST_S:.0f} s, and was aborted") from error
        finally:
            last_words = printed.end()
        if code != 0:
            raise ConnectError(f"The trial's process ended with {code}: {last_words}")
        answer: dict[str, Any] = json.loads(response)
        if "refused" in answer:
            raise BadRequestError(answer["refused"])
        for stage in answer["stages"]:
            if "error" in stage:
                stage["error"] = process_secrets().mask(stage["error"])
        return answer

    def _resolved(self, config: Mapping[str, str]) -> Mapping[str, str]:
        if not any(map(has_placeholder, config.values())):
            return config
        if not self._look_ups.acquire(blocking=False):
            raise ConnectError(f"{MAX_LOOK_UPS} look-ups of config providers are still hanging, so no more are started "
                               "for trials: find out why the providers do not respond, or restart the worker")
        looked_up = self._pool.try_submit(self._look_up, config)
        looked_up.add_done_callback(lambda _: self._look_ups.release())
        if not ended(looked_up, self._look_up_s):
            raise ConnectError("The config providers have not returned the values of the configuration's placeholders "
                               f"within {self._look_up_s:.0f} s: find out why they do not respond")
        return looked_up.result()

    def _look_up(self, config: Mapping[str, str]) -> Mapping[str, str]:
        with plugin_code():
            return self._transformer.transform(config)


def _run(request: str, errors: int) -> tuple[int, bytes]:
    """Returns the exit code and the standard output of a trial's process. `errors`: the descriptor of its standard
    error. Raises subprocess.TimeoutExpired, and ConnectError if it has too much output.
    """
    deadline = time.monotonic() + LONGEST_S
    with subprocess.Popen([sys.executable, "-m", "heeler.worker.trial_process"], stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE, stderr=errors, start_new_session=True) as process:
        assert process.stdin and process.stdout  # noqa: S101, PT018 - Popen opens pipes
        close_on_fork(process.stdin)
        raise_oom_score(process.pid)
        ending = threading.Thread(target=_end_group_of, args=(process,), name="trial-end", daemon=True)
        giving = threading.Thread(target=_give, args=(process.stdin, request), name="trial-input", daemon=True)
        ending.start()
        giving.start()
        descriptor, ready = process.stdout.fileno(), select.poll()
        ready.register(descriptor, select.POLLIN)

        def read(size: int) -> bytes:
            if not ready.poll(max(0.0, deadline - time.monotonic()) * 1000):
                raise subprocess.TimeoutExpired(process.args, LONGEST_S)
            return os.read(descriptor, size)

        try:
            output = read_bounded(read, LARGEST)
            process.wait(max(0.0, deadline - time.monotonic()))
        except TooLongError:
            raise ConnectError(f"The records of the trial are too large: its result has more than {LARGEST >> 20} MiB, "
                               "as each stage repeats them; use a smaller limit, or smaller records") from None
        finally:
            _end(process)
            ending.join()
            giving.join()
    return process.returncode, output


def _give(stdin: IO[bytes], request: str) -> None:
    with suppress(BrokenPipeError), stdin:  # the process may end before it has read all
        stdin.write(request.encode())


def _end(process: subprocess.Popen[bytes]) -> None:
    """Ends a trial that may still run: its parent ends what the plugin has started, if it can."""
    process.terminate()
    try:
        process.wait(_END_S)
    except subprocess.TimeoutExpired:
        kill_descendants(process.pid)
        process.kill()


def _end_group_of(process: subprocess.Popen[bytes]) -> None:
    """Ends what the process has started, as soon as it has ended: a child may have its standard output, and then
    reading it waits for that child.
    """
    process.wait()
    with suppress(ProcessLookupError, PermissionError):  # there is nothing left; on macOS the second one
        os.killpg(process.pid, signal.SIGKILL)


class _Printed:
    """What a plugin prints: any bytes, and any number of them. Only the last ones are kept."""

    def __init__(self) -> None:
        reader, self.pipe = os.pipe()
        self._last = b""
        self._thread = threading.Thread(target=self._read, args=(reader,), name="trial-output", daemon=True)
        try:
            self._thread.start()
        except RuntimeError:  # no thread is left
            os.close(reader)
            os.close(self.pipe)
            raise

    def _read(self, reader: int) -> None:
        with open(reader, "rb", buffering=0) as stream:
            while some := stream.read(65536):
                self._last = (self._last + some)[-_LAST_BYTES:]

    def end(self) -> str:
        """Call it when the process has ended, in any case. Returns the last text."""
        os.close(self.pipe)
        self._thread.join(1.0)  # a process that the plugin has started may still have the pipe
        return self._last.decode(errors="replace").strip()


def main() -> None:
    """The process of a trial, and on Linux its parent, which ends with the same code when nothing is left."""
    if sys.platform != "linux":
        _try()
    worker, reaper = os.getppid(), Reaper()
    signal.signal(signal.SIGTERM, lambda *_: reaper.kill())
    trial = reaper.fork()
    if not trial:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os.setpgid(0, 0)  # a plugin that signals its process group must not end the parent
        _try()
    code = _code_of(trial, reaper, worker)
    reaper.await_all(_END_S)
    os._exit(code)


def _code_of(trial: int, reaper: Reaper, worker: int) -> int:
    """Waits for the end of the trial, and ends it with its worker. Returns its exit code, as a shell does."""
    while (ended := os.waitid(os.P_PID, trial, os.WEXITED | os.WNOHANG | os.WNOWAIT)) is None:
        if os.getppid() != worker:
            reaper.kill()
        reaper.poll(_LOOK_S * 1000)
    return ended.si_status if ended.si_code == os.CLD_EXITED else 128 + ended.si_status


def _try() -> NoReturn:
    """Reads the request from standard input and writes the result to standard output. The output of plugins goes to
    standard error.
    """
    threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    from heeler.worker.trial_plugins import plugins_for_trial  # noqa: PLC0415 - after standard output was redirected
    from spark_tasks.trial import raw_records, topic_of_records, try_connector  # noqa: PLC0415

    request = json.load(sys.stdin)
    worker, config, records = request["worker"], stored(request["config"]), request["records"]
    topic = topic_of_records(config)

    def sample() -> Any:
        if records is None:
            raise ConnectError("The trial of a sink needs records: a list of objects with a value and, optionally, a "
                               "key, topic and headers")
        return raw_records(records, topic)

    try:
        plugins = plugins_for_trial(worker, config)
        stages = try_connector(plugins, worker, config, records=sample, limit=request["limit"])
        answer: dict[str, Any] = {"stages": [stage.as_data() for stage in stages]}
    except ConnectError as error:
        answer = {"refused": process_secrets().mask(str(error))}
    with out:
        json.dump(answer, out)
    os._exit(0)  # threads of a plugin may hang


def _end_with(parent: int) -> None:
    """Ends this process with its parent or worker, or after its time limit."""
    deadline = time.monotonic() + LONGEST_S
    while os.getppid() == parent and time.monotonic() < deadline:
        time.sleep(_LOOK_S)
    os.killpg(0, signal.SIGKILL)  # and what the plugin has started


if __name__ == "__main__":
    main()
