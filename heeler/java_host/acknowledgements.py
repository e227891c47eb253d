"""What the worker has committed, and the plugin of a Java source has not been told yet."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Final

from heeler.java_host.session import Session
from spark_tasks.host_frames import AppendedPositions

_NO_FRAME: Final = 0


class Acknowledgements:
    """Those of one session. `every_ms`: how often the plugin is called, even if nothing was committed."""

    def __init__(self, every_ms: float) -> None:
        self._every_ms = every_ms
        self.begin()

    def begin(self) -> None:
        """A session begins, to which no frame belongs yet."""
        self._positions: list[AppendedPositions] = []  # of frames that have not been reported
        self._frame: int | None = None  # the last committed one of these
        self._sent_at = time.monotonic()

    def committed(self, frame: int, positions: Sequence[AppendedPositions]) -> None:
        """Frames up to this one are committed, or part of the transaction. `positions`: of their records."""
        self._frame = frame
        self._positions += positions

    def send(self, session: Session) -> None:
        """Tells the plugin of what was committed, if anything was."""
        if self._frame is not None:
            self._tell(session, self._frame)

    def send_if_due(self, session: Session) -> None:
        """Calls the plugin although nothing was committed: plugins rely on regular calls of `commit`."""
        if self._frame is None and 1000 * (time.monotonic() - self._sent_at) >= self._every_ms:
            self._tell(session, _NO_FRAME)

    def _tell(self, session: Session, frame: int) -> None:
        positions = self._positions
        self.begin()
        session.connection.tell("acknowledge", frame=frame, places=[position.to_json() for position in positions])
