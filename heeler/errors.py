"""What the command line reports without a stack trace."""

from __future__ import annotations

from spark_tasks.errors import ConnectError


class SetupError(ConnectError):
    """Something that heeler needs on this machine is missing or in the way; says what to do (exit code 2)."""
