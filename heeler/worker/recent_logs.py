"""The last lines of the log about each connector, for GET /connectors/NAME/logs."""

from __future__ import annotations

import logging
from collections import OrderedDict, deque
from collections.abc import Sequence
from typing import Final

from typing_extensions import override

from heeler.worker.logs import ConnectFormatter, subject
from heeler.worker.masked_output import MaskingFilter
from spark_tasks.config.masking import process_secrets

LINES: Final = 200  # for each connector
CONNECTORS: Final = 1000  # of the connectors that logged last
LONGEST: Final = 10_000  # characters of a line with its stack trace
CHARACTERS: Final = 100_000  # of all lines of a connector: in an outage, each of hundreds logs long traces


class RecentLogs(logging.Handler):
    """Keeps the lines of this worker's log about connectors and tasks, including the herder's lines about them."""

    def __init__(self) -> None:
        super().__init__()
        self._lines: OrderedDict[str, deque[str]] = OrderedDict()
        self.setFormatter(ConnectFormatter())
        self.addFilter(MaskingFilter())

    @override
    def emit(self, record: logging.LogRecord) -> None:
        """Keeps the line if it is about a connector. The caller holds the handler's lock."""
        connector, _ = subject(record)
        if not connector:
            return
        try:
            line = self.format(record)
        except Exception:  # noqa: BLE001 - the code that logs must not fail; logging reports that with handleError
            self.handleError(record)
            return
        kept = self._lines.setdefault(connector, deque(maxlen=LINES))
        kept.append(line if len(line) <= LONGEST else f"{line[:LONGEST]}…")
        while sum(map(len, kept)) > CHARACTERS:
            kept.popleft()
        self._lines.move_to_end(connector)
        if len(self._lines) > CONNECTORS:
            self._lines.popitem(last=False)

    def lines(self, connector: str) -> Sequence[str]:
        """The lines, oldest first; masked again, as secrets may have become known since."""
        self.acquire()
        try:
            lines = list(self._lines.get(connector, ()))
        finally:
            self.release()
        return [process_secrets().mask(line) for line in lines]

    def install(self) -> None:
        """Attaches to the root logger, replacing a former instance."""
        root = logging.getLogger()
        for old in [handler for handler in root.handlers if isinstance(handler, RecentLogs)]:
            root.removeHandler(old)
        root.addHandler(self)
