"""What can go wrong, as types. A plugin raises these; everything else it raises is a defect and fails its task."""

from __future__ import annotations


class ConnectError(Exception):
    """Base of all errors that heeler raises on purpose. The message says what, where and what to do."""


class RetriableError(ConnectError):
    """Trying the same again may work: a broken connection, a busy server."""


class StartCancelledError(ConnectError):
    """A task is stopped before it has begun: no failure."""


class DataError(ConnectError):
    """A record cannot be read, converted or written: its task fails."""


class ConfigError(ConnectError):
    """A configuration value is wrong; names the key, the value and what is allowed."""
